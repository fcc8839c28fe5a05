"""Where images may come from, and how their references are read."""

import pytest

from tidegate.core.admission import Rules, images

DIGEST = f"sha256:{'a' * 64}"


@pytest.mark.parametrize(
    ("reference", "repository", "tag", "digest"),
    [
        ("vllm", "docker.io/library/vllm", None, None),
        ("vllm:v1", "docker.io/library/vllm", "v1", None),
        ("vllm/vllm-openai:v0.32.0", "docker.io/vllm/vllm-openai", "v0.32.0", None),
        ("index.docker.io/vllm/a:1", "docker.io/vllm/a", "1", None),
        ("ghcr.io/team/a", "ghcr.io/team/a", None, None),
        ("GHCR.io/team/a", "ghcr.io/team/a", None, None),
        ("localhost/vllm-cpu:v1", "localhost/vllm-cpu", "v1", None),
        ("localhost:5000/a", "localhost:5000/a", None, None),
        ("registry:5000/a:1", "registry:5000/a", "1", None),
        ("registry.local/a_b/c__d/e-f.g:1", "registry.local/a_b/c__d/e-f.g", "1", None),
        ("[::1]:5000/a:1", "[::1]:5000/a", "1", None),
        (f"a@{DIGEST}", "docker.io/library/a", None, DIGEST),
        (f"ghcr.io/a:1@{DIGEST}", "ghcr.io/a", "1", DIGEST),
    ],
)
def test_a_reference_is_read_as_a_runtime_reads_it(reference, repository, tag, digest):
    assert images.read(reference) == images.Image(repository, tag, digest)


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "A/b",
        "a b",
        "a//b",
        "a/../b",
        "/a",
        "a/",
        "a:",
        "a@",
        "a@sha256:0123",
        f"a@sha256:{'A' * 64}",
        "http://ghcr.io/a",
        "ghcr.io:port/a",
        "user@ghcr.io/a",
        "a:b:c",
        f"a:{'b' * 129}",
        "a\n",
        "ａ/b",
    ],
)
def test_what_no_runtime_takes_is_no_reference(reference):
    assert images.read(reference) is None
    assert [str(one.reason) for one in images.check(reference, Rules())] == ["InvalidSpec"]


@pytest.mark.parametrize(
    ("entry", "reference", "is_allowed"),
    [
        ("docker.io", "vllm/a", True),
        ("docker.io/vllm", "vllm/a", True),
        ("docker.io/vllm", "vllm2/a", False),
        ("docker.io/library", "a", True),
        ("ghcr.io/", "ghcr.io/a", True),
        ("ghcr.io", "ghcr.io.evil.example/a", False),
        ("ghcr.io", "evil.example/ghcr.io/a", False),
        ("ghcr.io/team", "ghcr.io/team/sub/a", True),
        ("ghcr.io/team/a", "ghcr.io/team/a", True),
        ("localhost", "localhost:5000/a", False),
        ("localhost:5000", "localhost:5000/a", True),
    ],
)
def test_an_entry_allows_what_is_below_it(entry, reference, is_allowed):
    assert (list(images.check(reference, Rules(registries=(entry,)))) == []) == is_allowed
