"""`tidegate plan --batch`: a line in, a line out, whatever the lines hold."""

import contextlib
import io
import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.cli.command import run
from tests.unit.core.batch.cases import CASE, FIELDS, changed, vectors

from tidegate.cli.planning import plan_batch

NOT_LOADED = ("pydantic", "kubernetes", "kopf", "rich", "jinja2", "yaml")


def batch(*lines, path="-"):
    """Return the exit code and the answers to some lines."""
    code, out, err = run("plan", "--batch", path, stdin="\n".join(lines))
    assert "Traceback" not in err
    return code, [json.loads(line) for line in out.splitlines()]


def test_every_vector_of_the_planner_is_reproduced_from_end_to_end():
    committed = vectors()
    code, answers = batch(*(json.dumps(vector["case"]) for vector in committed))

    assert code == 0
    assert len(answers) == len(committed)
    for vector, got in zip(committed, answers, strict=True):
        pool = vector["pool"]
        assert got["fits"] is pool["fits"]
        expected = {ours: pool[theirs] for ours, theirs in FIELDS.items() if theirs in pool}
        assert {key: got["kv"][key] for key in expected} == expected, vector["id"]


def test_one_bad_line_has_one_error_and_the_others_go_on():
    good = json.dumps(CASE)
    code, answers = batch(good, good[:50], '{"id": "x", "model": {}}', "", good)

    assert code == 1
    assert ["error" in one for one in answers] == [False, True, True, False]
    assert [one.get("line") for one in answers] == [None, 2, 3, None]
    assert answers[2]["id"] == "x"


def test_a_refusal_is_an_answer_and_no_failure_of_the_batch():
    code, [got] = batch(json.dumps(changed(model={"id": "nobody/nothing"})))

    assert code == 0
    assert got == {
        "id": "one",
        "refused": {"reason": "ModelUnknown", "message": got["refused"]["message"]},
    }


def test_a_file_is_read_and_one_that_is_not_there_is_said(tmp_path):
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps(CASE) + "\n")

    assert batch(path=path)[1][0]["fits"] is True
    code, _, err = run("plan", "--batch", tmp_path / "nothing.jsonl")
    assert (code, err.count("\n")) == (2, 1)
    assert "--batch" in err


def test_bytes_that_are_no_text_are_one_error():
    done = subprocess.run(
        [sys.executable, "-m", "tidegate", "plan", "--batch", "-"],
        input=b"\xff\xfe\n" + json.dumps(CASE).encode() + b"\n",
        capture_output=True,
        timeout=60,
    )
    answers = [json.loads(line) for line in done.stdout.splitlines()]

    assert done.returncode == 1
    assert answers[0]["error"] == "line 1: is no UTF-8 at byte 0"
    assert answers[1]["fits"] is True


def test_each_answer_comes_before_the_next_case_is_asked():
    with subprocess.Popen(
        [sys.executable, "-m", "tidegate", "plan", "--batch", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        for name in ("first", "second"):
            process.stdin.write(json.dumps(changed(id=name)) + "\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["id"] == name
        process.stdin.close()
        assert process.wait(30) == 0


def test_a_line_without_end_is_an_error_and_memory_stays_bounded(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(plan_batch, "_LONGEST_LINE_BYTES", 4096)
    path = tmp_path / "cases.jsonl"
    path.write_text("x" * 10_000 + "\n" + json.dumps(CASE) + "\n")
    all_readable = plan_batch.run(str(path))
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    assert all_readable is False
    assert "line 1: is longer than 4096 bytes" in answers[0]["error"]
    assert answers[1]["fits"] is True


def test_the_batch_loads_nothing_that_it_does_not_use():
    program = (
        "import sys; from tidegate.cli import main\n"
        "try: main(['plan', '--batch', '-'])\n"
        f"except SystemExit: print([m for m in {NOT_LOADED} if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(CASE),
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert done.stdout.splitlines()[-1] == "[]"


_NAMES = st.lists(st.text(st.characters(codec="utf-8"), max_size=6), max_size=8)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("batch") / "cases.jsonl"


@settings(max_examples=30, deadline=None)
@given(names=_NAMES, bad=st.sets(st.integers(0, 7)))
def test_order_is_kept(path, names, bad):
    lines = [
        json.dumps(changed(id=name))[: 30 if index in bad else None]
        for index, name in enumerate(names)
    ]
    path.write_text("\n".join(lines), encoding="utf-8")
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        all_readable = plan_batch.run(str(path))
    answers = [json.loads(line) for line in written.getvalue().splitlines()]

    assert all_readable is not any(index in bad for index in range(len(names)))
    assert len(answers) == len(names)
    for index, (name, got) in enumerate(zip(names, answers, strict=True)):
        if index in bad:
            assert got["line"] == index + 1
        else:
            assert got["id"] == name
