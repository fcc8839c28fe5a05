import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.gate.core.asking import asked, chat

from tidegate.gate.core.count import Counts
from tidegate.gate.exchange import Script, Usage

ASK = asked(chat())


def asks(counts, characters=0, script=Script.LATIN, messages=0, images=0):
    return dataclasses.replace(
        ASK,
        characters=characters,
        script=script,
        messages=messages,
        images=images,
        prompt_tokens=counts.estimate(characters, script, messages, images),
    )


def teach(counts, truth, rounds=100, **parts):
    for _ in range(rounds):
        ask = asks(counts, **parts)
        counts.learn(ask, Usage(round(truth(ask)), 10))


@pytest.mark.parametrize(
    ("script", "per_token"), [(Script.LATIN, 4), (Script.CJK, 1.5), (Script.CODE, 3)]
)
def test_until_an_answer_came_common_ratios_hold(script, per_token):
    assert Counts().estimate(12_000, script, 0, 0) == round(12_000 / per_token)


@pytest.mark.parametrize("script", list(Script))
def test_each_kind_of_text_is_learned_by_itself(script):
    counts = Counts()
    before = {other: counts.tokens_per_character(other) for other in Script}

    teach(counts, lambda ask: ask.characters * 0.5, characters=4000, script=script)

    assert counts.tokens_per_character(script) == pytest.approx(0.5, rel=0.02)
    for other in set(Script) - {script}:
        assert counts.tokens_per_character(other) == before[other]


def test_overhead_of_messages_and_the_size_of_images_are_learned():
    counts = Counts()
    teach(counts, lambda ask: ask.messages * 12 + 2, characters=8, messages=10)
    teach(counts, lambda ask: ask.images * 300 + 12, messages=1, images=2)

    assert counts.estimate(8, Script.LATIN, 10, 0) == pytest.approx(122, rel=0.05)
    assert counts.estimate(0, Script.LATIN, 1, 4) == pytest.approx(1212, rel=0.05)


def test_the_error_is_weighed_by_tokens():
    counts = Counts()
    assert counts.estimate_error() is None

    for ask, told in ((asks(counts, 4), 4), (asks(counts, 4000), 1250)):
        counts.learn(ask, Usage(told, 1))

    assert counts.estimate_error() == pytest.approx(253 / 1254, rel=0.02)


def test_one_odd_answer_bends_little():
    counts = Counts()
    teach(counts, lambda ask: 1000, characters=4000)

    teach(counts, lambda ask: 4000, rounds=1, characters=4000)

    assert counts.estimate(4000, Script.LATIN, 0, 0) < 1100


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**7), st.integers(0, 500), st.integers(0, 50), st.integers(0, 10**8)
        ),
        max_size=30,
    )
)
def test_estimates_stay_sane_whatever_is_told(lessons):
    counts = Counts()
    for characters, messages, images, told in lessons:
        counts.learn(asks(counts, characters, Script.LATIN, messages, images), Usage(told, 1))

    assert 1000 / 33 <= counts.estimate(1000, Script.LATIN, 0, 0) <= 4001
    assert counts.estimate(0, Script.CJK, 0, 0) == 1
