"""Who asks about a spec that is known does not wait for one that is being judged."""

import asyncio
import threading

import pytest
from tests.unit.shell.test_webhook_server import NODES, resource

from tidegate.core import admission
from tidegate.core.admission import Facts, fit
from tidegate.shell.admission.judging import Judge

FACTS = Facts(nodes=NODES, gpu_pods=())
KNOWN, UNKNOWN, OTHER = (
    resource(engine={"image": "vllm/vllm-openai:v0.32.0", "maxModelLen": length})
    for length in (4096, 5000, 6000)
)


class Hold:
    """Holds up every judgement until it is released, and counts them."""

    def __init__(self) -> None:
        self.released = threading.Event()
        self.released.set()
        self.begun = 0


@pytest.fixture
def hold(monkeypatch):
    hold, original = Hold(), fit._judge

    def judge(spec, seen):
        hold.begun += 1
        assert hold.released.wait(60)
        return original(spec, seen)

    monkeypatch.setattr(fit, "_judge", judge)
    yield hold
    hold.released.set()


@pytest.fixture
def judge():
    judge = Judge()
    yield judge
    judge.close()


async def begins(judge, hold, document, facts=FACTS):
    """Ask about a spec, and return once it is being judged."""
    before = hold.begun
    hold.released.clear()
    task = asyncio.ensure_future(judge.review(None, document, facts))
    async with asyncio.timeout(30):
        while hold.begun == before:
            await asyncio.sleep(0.001)
    return task


async def test_a_known_spec_is_answered_while_another_is_judged(judge, hold):
    first = await judge.review(None, KNOWN, FACTS)
    task = await begins(judge, hold, UNKNOWN)

    assert await judge.review(None, KNOWN, FACTS) == first
    assert not task.done()

    hold.released.set()
    assert await task == admission.review(None, UNKNOWN, FACTS)


async def test_what_was_judged_once_is_not_judged_again(judge, hold):
    first = await judge.review(None, KNOWN, FACTS)
    assert [await judge.review(None, KNOWN, FACTS) for _ in range(3)] == [first] * 3
    assert hold.begun == 1


async def test_what_was_judged_on_nodes_that_have_changed_is_not_remembered(judge, hold):
    task = await begins(judge, hold, UNKNOWN)
    later = Facts(nodes=(), gpu_pods=())
    other = asyncio.ensure_future(judge.review(None, OTHER, later))
    await asyncio.sleep(0)  # the nodes of now are known from here on
    hold.released.set()
    await asyncio.gather(task, other)

    told = await judge.review(None, UNKNOWN, later)
    assert told == admission.review(None, UNKNOWN, later)
    assert told.warnings != admission.review(None, UNKNOWN, FACTS).warnings


async def test_one_who_no_longer_waits_leaves_nothing_behind(judge, hold):
    """A review that took too long is refused; those behind it are judged all the same."""
    task = await begins(judge, hold, UNKNOWN)
    waiting = asyncio.ensure_future(judge.review(None, OTHER, FACTS))
    await asyncio.sleep(0)
    task.cancel()
    hold.released.set()

    assert await waiting == admission.review(None, OTHER, FACTS)
    assert (await judge.review(None, UNKNOWN, FACTS)).problems == ()
