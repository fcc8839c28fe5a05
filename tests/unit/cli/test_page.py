"""`tidegate plan --html`: one page that stands by itself, and takes what users wrote as text."""

import json
import re
import shlex

import pytest
from tests.unit.cli.command import A100, EXAMPLES, H100, L40S, run

PAIR = EXAMPLES / "production" / "qwen3-32b-pair.yaml"
HOSTILE = "<script>alert(1)</script>&\"'"


@pytest.fixture
def page(tmp_path):
    """Write a page and return its text."""

    def write(*arguments):
        path = tmp_path / "plan.html"
        code, _, err = run("plan", *arguments, "--html", path)
        assert "Traceback" not in err
        return code, path.read_text(encoding="utf-8")

    return write


def test_the_page_loads_nothing_and_runs_nothing(page):
    _, text = page("-f", PAIR, "--gpu", H100)

    assert "default-src 'none'" in text
    assert not re.search(r"https?:|\bsrc=|\bhref=|@import|url\(|<script|\bon\w+=", text)


def test_the_page_has_bars_curves_and_reasons(page):
    code, text = page("-f", PAIR, "--gpu", H100)

    assert code == 0
    assert text.count('class="bar"') == 2
    assert "prefill on NVIDIA-H100-80GB-HBM3" in text
    assert text.count("<polyline") == 2 * 4 * 2  # pools, tensor parallel 1 to 8, two KV types
    assert "65,536 bytes of KV" in text
    assert "moving the KV of a p95 prompt" in text


def test_the_parts_of_a_bar_are_in_proportion_and_named(page):
    _, text = page("-f", PAIR, "--gpu", H100)
    bar = text[text.index('class="bar"') :]
    bar = bar[: bar.index("</div>")]
    shares = [float(share) for share in re.findall(r"flex: ([\d.]+)", bar)]

    assert sum(shares) == pytest.approx(100, abs=0.01)
    assert "Weights 30.5Gi, 38.5 percent" in bar
    assert "KV cache" in bar


def test_what_ifs_stand_on_the_page_with_why_some_do_not_fit(page):
    _, text = page(
        *("-f", PAIR, "--gpu", H100, "--vary", "decode.tensorParallel=1,2"),
        *("--vary", "kvCache.dtype=auto,fp8", "--sort", "requests"),
    )

    assert "What if: qwen3-32b" in text
    assert "BudgetTooSmall" in text
    assert "kvCache.dtype auto" in text


def test_what_a_rollout_needs_stands_on_the_page(page):
    _, text = page("-f", EXAMPLES / "canary.yaml", "--gpu", A100)
    _, of_a_command_line = page("--serve", "vllm serve Qwen/Qwen3-0.6B", "--gpu", A100)

    assert "Rollout of a new revision: Canary" in text
    assert f"<td>1 pod of unified on {A100} (1 GPU)</td>" in text
    assert "16m of steps and warm-up (exact)" in text
    assert "ollout of a new revision" not in of_a_command_line


def test_a_refusal_is_on_the_page_with_what_to_do(page):
    code, text = page("--serve", "vllm serve Qwen/Qwen3-32B", "--gpu", L40S)

    assert code == 1
    assert "<strong>WeightsDoNotFit</strong>" in text
    assert "tensorParallel 2 fits" in text


def test_what_users_wrote_is_text(page, tmp_path):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"architectures": [HOSTILE], "model_type": HOSTILE}))
    code, text = page(
        "--serve", f"vllm serve {shlex.quote(HOSTILE)}", "--gpu", H100, "--config", config
    )

    assert code == 1
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


def test_a_page_that_cannot_be_written_is_said():
    code, _, err = run("plan", "-f", PAIR, "--gpu", H100, "--html", "/nowhere/plan.html")

    assert code == 2
    assert "--html: /nowhere/plan.html cannot be written" in err
