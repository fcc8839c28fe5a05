"""The examples as they are, with real vLLM: sized, running, and answering.

One after the other, so that no more than two engines share the machine.
"""

import contextlib
import json
import re
import subprocess
from pathlib import Path

import openai
import pytest
from e2e import llmd
from e2e.double import compare
from e2e.double import image as double_image
from e2e.engine import metrics, pair
from e2e.kube import Not, wait_until
from e2e.llmd import REVISION, env, node_of
from e2e.streams import Streams

EXAMPLES = Path(__file__).parents[3] / "examples"
ENGINE_SECONDS = 400.0
"""Two engines that start on two busy cores."""
STREAMS_PER_SECOND = 0.5
"""Twice as many are more than an engine serves while others start on two slow cores."""
MODEL = "tiny"
PROMPT = {"model": MODEL, "prompt": " hello" * 40, "max_tokens": 8, "temperature": 0}

pytestmark = pytest.mark.timeout(ENGINE_SECONDS + 200)


@contextlib.contextmanager
def applied(kube, namespace, file, change=None):
    """An example that is ready; those before make room, and its engines are gone at the end."""
    kube.kubectl("delete", "llmd", "--all", "-n", namespace)
    deployment = llmd.apply(kube, namespace, EXAMPLES / file, change=change)
    try:
        deployment.wait_ready(ENGINE_SECONDS)
        yield deployment
    finally:
        deployment.delete()
        words = ("delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false")
        wait_until("its Deployments are gone", lambda: not deployment.children(), 60)
        kube.try_kubectl("-n", namespace, *words)


@pytest.fixture(scope="module")
def unified(kube, shared_namespace):
    with applied(kube, shared_namespace, "unified.yaml") as deployment:
        yield deployment


def test_unified_is_ready_and_shown_by_kubectl(kube, unified):
    header, row = kube.kubectl("get", "llmd", "-n", unified.namespace).splitlines()
    columns = {  # by their places: without Prometheus there is nothing under OVERLOAD
        found.group().strip(): row[found.start() : found.end()].strip()
        for found in re.finditer(r"\S+\s*", header)
    }

    assert columns["NAME"] == "tiny"
    assert columns["READY"] == "True"
    assert columns["MODE"] == "Unified"
    assert columns["PODS"] == "1/1"
    assert columns["KV-TOKENS"] == "8192"
    assert columns["REASON"] == "PodsReady"


def test_unified_answers_a_completion(kube, unified):
    (pod,) = unified.pods()

    answer = pair.complete(kube.pod_url(pod), PROMPT)

    assert answer["model"] == MODEL
    assert answer["usage"]["prompt_tokens"] == 40
    assert answer["usage"]["completion_tokens"] == 8
    assert answer["choices"][0]["text"].strip()


def test_the_official_client_talks_to_the_unified_example(local, unified):
    client = openai.OpenAI(base_url=f"{unified.address}/v1", api_key="none")

    whole = client.completions.create(**PROMPT)
    *chunks, last = client.completions.create(**PROMPT, stream=True)

    assert whole.usage.completion_tokens == 8
    assert "".join(c.choices[0].text for c in (*chunks, last)) == whole.choices[0].text
    assert last.choices[0].finish_reason == "length"
    assert [model.id for model in client.models.list()] == [MODEL]


def test_curl_streams_from_the_unified_example(local, unified):
    words = ("curl", "-sSN", "--max-time", "60", f"{unified.address}/v1/completions")
    asked = json.dumps({**PROMPT, "stream": True})

    done = subprocess.run(
        [*words, "-H", "Content-Type: application/json", "-d", asked],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.rstrip().endswith("data: [DONE]")


def test_unified_has_the_kv_cache_that_the_plan_says(kube, unified):
    (pod,) = unified.pods()
    (planned,) = unified.status["plan"]

    assert measured(kube, pod) == predicted(planned)


def test_what_the_engine_told_of_its_kv_cache_is_shown_beside_the_plan(unified):
    unified.wait_for("BudgetDrift", "False", "AsPlanned")
    (planned,) = unified.status["plan"]

    assert planned["measured"] == {
        "kvTokens": 8192,
        "kvBlocks": planned["kvBlocks"],
        "blockSize": planned["kvBlockSize"],
        "driftPercent": 0,
    }


def test_the_double_answers_as_the_real_engine_does(local, kube, namespace, unified):
    """With the flags that were rendered for the real one, so that scenarios may rely on it."""
    image = double_image.REFERENCE
    change = {
        "model": {"id": "/models/tiny"},
        "engine": {"image": image, "version": "0.32.0", "env": env(DOUBLE_DEVICE="cpu")},
    }
    double = llmd.apply(kube, namespace, EXAMPLES / "unified.yaml", "double", change)
    double.wait_ready()
    urls = [f"http://{pods[0]['status']['podIP']}:8000" for pods in (unified.pods(), double.pods())]

    differences = compare.compare(*urls, MODEL)

    assert differences == [], "\n".join(map(str, differences))


def test_mixed_classes_have_the_numbers_of_their_class(kube, shared_namespace):
    with applied(kube, shared_namespace, "mixed-classes.yaml") as deployment:
        status = deployment.status
        plans = {entry["gpuProduct"]: entry for entry in status["plan"]}
        assert status["pods"] == "2/2"
        assert len(plans) == 2

        for pod in deployment.pods():
            labels = kube.get("nodes", None, node_of(pod))["metadata"]["labels"]
            planned = plans.pop(labels["nvidia.com/gpu.product"])
            assert measured(kube, pod) == predicted(planned)
            assert pair.complete(kube.pod_url(pod), PROMPT)["usage"]["completion_tokens"] == 8
        assert plans == {}, "one pod on each class"


def test_a_changed_flag_is_rolled_out_under_streams_and_nobody_loses_one(
    local, kube, shared_namespace
):
    with applied(kube, shared_namespace, "canary.yaml") as deployment:
        rolled_out_under_streams(deployment)


@pytest.fixture(scope="module")
def prefill_decode(kube, shared_namespace):
    with applied(kube, shared_namespace, "prefill-decode.yaml") as deployment:
        yield deployment


def test_prefill_decode_moves_the_prompt_between_the_nodes(local, kube, prefill_decode):
    (prefill,), (decode,) = prefill_decode.pods("prefill"), prefill_decode.pods("decode")
    assert node_of(prefill) != node_of(decode)
    plans = {entry["pool"]: entry for entry in prefill_decode.status["plan"]}
    assert measured(kube, prefill) == predicted(plans["prefill"])
    assert measured(kube, decode) == predicted(plans["decode"])

    proofs = [pair.prove(kube.pod_url(prefill), kube.pod_url(decode), MODEL) for _ in range(3)]

    assert all(proof.moved_all for proof in proofs), [proof.by_source for proof in proofs]
    assert [proof.text for proof in proofs] == [proof.text_alone for proof in proofs]

    urls = prefill_decode.address, kube.pod_url(prefill), kube.pod_url(decode)
    by_gate = [pair.prove_by_gate(*urls, MODEL) for _ in range(3)]

    assert all(proof.moved_all for proof in by_gate), [proof.by_source for proof in by_gate]
    assert [proof.text for proof in by_gate] == [proof.text_alone for proof in by_gate]


def test_a_pair_is_rolled_out_under_streams_and_nobody_loses_one(local, prefill_decode):
    """Four engines share the machine while the new two start."""
    rolled_out_under_streams(prefill_decode)


def rolled_out_under_streams(deployment):
    """By the clock: nobody judges here. One pod of each pool, and a GPU more for its canary."""
    steps = [{"weight": 50, "pause": "5s"}]
    by_clock = {"strategy": "Canary", "steps": steps, "bounds": None, "gpuBudget": 2}
    before = deployment.status["revision"]
    seqs = deployment.document["spec"]["engine"]["maxNumSeqs"]
    told_later = {"tries": 30, "pause_seconds": 2.0}  # who is told to come back does
    with Streams(deployment.address, STREAMS_PER_SECOND, output_tokens=8, **told_later) as streams:
        wait_until("the old one serves", lambda: len(streams.of(before)) > 3, 60)
        deployment.patch({"engine": {"maxNumSeqs": seqs // 2}, "rollout": by_clock})
        deployment.wait_for("Promoted", "False", seconds=60)
        deployment.wait_for("Promoted", "True", "Promoted", ENGINE_SECONDS)
        wait_until("the new one serves", lambda: len(streams.of(now(deployment))) > 3, 60)

    assert now(deployment) != before
    assert not streams.lost_when_let_in(), f"of {len(streams.done)}"
    assert streams.unserved() == set(), "who came again was served"
    served = {pod["metadata"]["labels"][REVISION] for pod in deployment.pods()}
    assert served == {now(deployment)}


def now(deployment):
    """The revision that has been promoted."""
    return deployment.status["rollout"]["stable"]


def measured(kube, pod):
    """Tokens, blocks and block size of the KV cache, as the engine itself tells them."""
    found = wait_until(
        "the engine tells its KV cache",
        lambda: (
            metrics.scrape(kube.pod_url(pod)).labels("vllm:cache_config_info") or Not("nothing")
        ),
        30,
    )
    keys = ("kv_cache_size_tokens", "num_gpu_blocks", "block_size")
    return tuple(int(found[key]) for key in keys)


def predicted(planned):
    """The same, as `status.plan` has them."""
    return tuple(planned[key] for key in ("kvTokens", "kvBlocks", "kvBlockSize"))
