"""What is measured of pods and answers, and what is made of it."""

import math

import pytest
from tests.unit.gate.core import doubles

from tidegate.api.gate_config import KVGroup, Slo
from tidegate.gate.core.blocks import BlockRule
from tidegate.gate.core.correction import Correction
from tidegate.gate.core.lengths import FIRST_GUESS_TOKENS, Lengths
from tidegate.gate.core.objectives import Objectives
from tidegate.gate.core.speeds import PrefillSpeed, Stay, TimePerToken
from tidegate.gate.exchange import Scrape, Surface


@pytest.mark.parametrize(
    ("groups", "tokens", "blocks"),
    [
        ([(16, None, 0)], 0, 0),
        ([(16, None, 0)], 1, 1),
        ([(16, None, 0)], 16, 1),
        ([(16, None, 0)], 17, 2),
        ([(16, None, 1)], 17, 3),
        ([(16, 64, 1)], 1000, 5),
        ([(16, 64, 1), (32, None, 0)], 1000, 5 + 32),
        ([(4096, 0, 2), (16, None, 0)], 100, 2 + 7),
    ],
)
def test_blocks_follow_the_engines_rule(groups, tokens, blocks):
    rule = BlockRule([KVGroup(block_tokens=b, cap_tokens=c, extra_blocks=e) for b, c, e in groups])
    assert rule.of(tokens) == blocks


@pytest.mark.parametrize(
    ("group", "prompt", "output", "samples", "prompts", "blocks"),
    [
        pytest.param({}, 1600, 16, 1, 1, 101, id="one prompt"),
        pytest.param({}, 1600, 16, 4, 1, 101 + 3, id="answers share their prompt"),
        pytest.param({}, 1600, 16, 10, 10, 10 * 11, id="prompts share nothing"),
        pytest.param({}, 1600, 16, 20, 10, 10 * 12, id="each has its answers"),
        pytest.param({}, 170, 0, 10, 10, 10 * 2, id="each has its last block"),
        pytest.param({"cap_tokens": 64}, 1600, 0, 10, 10, 10 * 4, id="each has its window"),
        pytest.param({"extra_blocks": 2}, 1600, 0, 10, 10, 10 * 12, id="each has its state"),
    ],
)
def test_each_prompt_of_a_request_has_blocks_of_its_own(
    group, prompt, output, samples, prompts, blocks
):
    rule = BlockRule([KVGroup(**{"block_tokens": 16, **group})])
    assert rule.of_request(prompt, output, samples, prompts) == blocks


class TestPrefillSpeed:
    def test_is_tokens_per_second_in_which_any_prompt_waited(self):
        speed = PrefillSpeed()
        for start in (0.0, 100.0, 200.0):  # a hundred seconds of rest between them count nothing
            speed.began(start)
            speed.reached(300, start + 0.1)
            speed.reached(300, start + 0.2)
            speed.rested()
        assert speed.per_second == pytest.approx(3000)

    def test_is_not_learned_from_the_latency_of_tiny_prompts(self):
        speed = PrefillSpeed()
        speed.guess(20_000.0)
        for start in range(1000):
            speed.began(float(start))
            speed.reached(4, start + 0.01)
            speed.rested()
        assert speed.per_second == 20_000.0

    def test_is_learned_from_tiny_prompts_that_keep_an_engine_busy(self):
        speed = PrefillSpeed()
        speed.began(0.0)
        for hundredth in range(1, 1000):
            speed.reached(4, hundredth / 100)
        assert speed.per_second == pytest.approx(400, rel=0.02)

    def test_is_the_plans_until_it_is_measured(self):
        speed = PrefillSpeed()
        assert speed.per_second is None
        speed.guess(1000.0)
        assert speed.per_second == 1000.0
        speed.began(0.0)
        for tenth in range(1, 600):
            speed.reached(50, tenth / 10)
        assert speed.per_second == pytest.approx(500, rel=0.02)
        speed.guess(1000.0)
        assert speed.per_second == pytest.approx(500, rel=0.02)

    @pytest.mark.parametrize("estimate", [300.0, 5000.0, 1e6, 3e7])
    def test_a_bad_estimate_gives_way_within_ten_prompts(self, estimate):
        speed = PrefillSpeed()
        speed.guess(estimate)
        speed.began(0.0)
        for prompt in range(1, 11):
            speed.reached(1000, prompt / 5)
        assert speed.per_second == pytest.approx(5000, rel=0.25)


class TestTimePerToken:
    def test_is_a_line_over_those_that_run(self):
        pace = TimePerToken()
        for _ in range(20):
            for running in range(1, 40):
                pace.add(running, 0.02 + 0.001 * running)
        assert pace.at(20) == pytest.approx(0.040, rel=0.05)
        assert pace.at(60) == pytest.approx(0.080, rel=0.05)

    def test_is_unknown_before_enough_was_seen(self):
        pace = TimePerToken()
        for _ in range(15):
            pace.add(1, 0.01)
        assert pace.at(5) is None

    def test_more_that_run_are_never_predicted_to_be_faster(self):
        pace = TimePerToken()
        for running in range(1, 60):
            pace.add(running, 1.0 / running)
        assert pace.at(50) <= pace.at(60)


def test_a_stay_is_unknown_before_the_first_end():
    stay = Stay()
    assert stay.seconds is None
    stay.add(2.0, 100)
    assert stay.seconds == 2.0


def test_who_holds_more_counts_more_in_the_stay():
    stay = Stay()
    for _ in range(500):
        stay.add(1.0, 100)
        stay.add(5.0, 300)
    assert stay.seconds == pytest.approx(4.0, rel=0.02)


class TestLengths:
    def test_answers_to_many_short_prompts_are_like_those_to_one_of_them(self):
        lengths = Lengths()
        for _ in range(8):
            lengths.learn(doubles.ask(100), 10)
            lengths.learn(doubles.ask(6400), 500)
        assert lengths.expected(doubles.ask(6400, 1000, samples=64, prompts=64)) == 10

    def test_no_answer_is_expected_to_exceed_its_limit(self):
        assert Lengths().expected(doubles.ask(limit=50)) == 50
        assert Lengths().expected(doubles.ask(limit=32_000)) == FIRST_GUESS_TOKENS
        assert Lengths().expected(doubles.ask(limit=50, surface=Surface.EMBEDDINGS)) == 0

    @pytest.mark.parametrize(("least", "expected"), [(0, 64), (40, 64), (4000, 4000), (9000, 4000)])
    def test_an_answer_is_expected_to_have_no_less_than_its_client_demands(self, least, expected):
        lengths = Lengths()
        for _ in range(30):
            lengths.learn(doubles.ask(), 64)
        assert lengths.expected(doubles.ask(limit=4000, least_expected=least)) == expected

    def test_long_prompts_with_short_answers_are_told_from_short_ones_with_long(self):
        lengths = Lengths()
        long, short = doubles.ask(5000, 4000), doubles.ask(50, 4000)
        for _ in range(10):
            lengths.learn(long, 60)
            lengths.learn(short, 400)
        assert (lengths.expected(long), lengths.expected(short)) == (60, 400)

    def test_a_change_of_the_traffic_is_followed(self):
        lengths = Lengths()
        for tokens in [1000] * 200 + [50] * 130:
            lengths.learn(doubles.ask(100, 4000), tokens)
        assert lengths.expected(doubles.ask(100, 4000)) == 50

    @pytest.mark.parametrize(
        ("made", "expected"),
        [(0, 100), (40, 100), (80, 130), (500, 550), (990, 1000), (1000, 1000)],
    )
    def test_who_runs_on_is_expected_to_go_on_for_half_of_the_mean(self, made, expected):
        asked = doubles.ask(100, 1000)
        assert Lengths().expected_of(asked, 100, made) == expected


class TestObjectives:
    def test_declared_ones_hold(self):
        objectives = Objectives()
        objectives.declare(Slo(time_to_first_token="2s", time_per_output_token="50ms"))
        assert (objectives.ttft_seconds, objectives.tpot_seconds) == (2.0, 0.05)

    def test_nothing_is_known_at_first(self):
        objectives = Objectives()
        objectives.settle(None)
        assert objectives.ttft_seconds is None
        assert objectives.tpot_seconds is None
        assert objectives.allowed_ttft(1.0) is None

    def test_they_are_multiples_of_what_idle_pods_did(self):
        objectives = Objectives()
        for _ in range(9):
            objectives.first_token(100, 0.2, 0.0, was_idle=True)
            objectives.unloaded_tpot(0.01)
        objectives.settle(500.0)
        assert objectives.ttft_seconds == pytest.approx(1.0)
        assert objectives.tpot_seconds == pytest.approx(0.03)

    def test_nothing_that_feels_instant_is_called_late(self):
        objectives = Objectives()
        for _ in range(9):
            objectives.first_token(100, 0.001, 0.0, was_idle=True)
            objectives.unloaded_tpot(0.001)
        objectives.settle(1e6)
        assert (objectives.ttft_seconds, objectives.tpot_seconds) == (0.2, 0.02)

    def test_without_idle_pods_the_median_prompt_is_taken_at_the_speed_of_prefill(self):
        objectives = Objectives()
        for prompt in (10, 100, 4000):
            objectives.first_token(prompt, 3.0, 0.0, was_idle=False)
        objectives.settle(500.0)
        assert objectives.ttft_seconds == pytest.approx(5 * 100 / 500)

    def test_late_answers_widen_the_margin_and_timely_ones_close_it(self):
        objectives = Objectives()
        objectives.declare(Slo(time_to_first_token="1s"))
        for _ in range(3):
            objectives.first_token(10, 0.8, 0.3, was_idle=False)
        assert objectives.ttft_seconds == pytest.approx(0.88)
        for _ in range(600):
            objectives.first_token(10, 0.1, 0.0, was_idle=False)
        assert objectives.ttft_seconds == pytest.approx(1.0)
        for _ in range(600):
            objectives.first_token(10, 9.0, 0.0, was_idle=False)
        assert objectives.ttft_seconds == pytest.approx(0.5)

    def test_a_prompt_that_is_late_even_alone_may_wait_a_little(self):
        objectives = Objectives()
        objectives.declare(Slo(time_to_first_token="1s"))
        assert objectives.allowed_ttft(0.2) == 1.0
        assert objectives.allowed_ttft(5.0) == 5.25


class TestCorrection:
    def scrape(self, correction, usages, known=50, start=0.0):
        for number, usage in enumerate(usages):
            at = start + number / 2
            correction.observe(Scrape(at=at, kv_usage=usage, num_gpu_blocks=101), known)

    def test_only_what_three_scrapes_agree_on_is_believed(self):
        correction = Correction()
        self.scrape(correction, [0.9, 0.9])
        assert correction.unseen == 0
        self.scrape(correction, [0.8], start=1.0)
        assert correction.unseen == 30

    def test_less_than_the_ledger_knows_changes_nothing(self):
        correction = Correction()
        self.scrape(correction, [0.1, 0.1, 0.1, 0.1])
        assert correction.unseen == 0

    def test_it_recovers(self):
        correction = Correction()
        self.scrape(correction, [0.9] * 3)
        self.scrape(correction, [0.4] * 8, start=1.5)
        assert correction.unseen == 0

    @pytest.mark.parametrize("usage", [float("nan"), float("inf"), -0.1, 1.5, None])
    def test_what_cannot_be_is_not_known(self, usage):
        correction = Correction()
        self.scrape(correction, [usage] * 6)
        assert correction.unseen == 0

    def test_a_pod_that_is_not_scraped_any_more_is_judged_by_the_ledger_alone(self):
        correction = Correction()
        self.scrape(correction, [0.9] * 3)
        assert not correction.expire(2.0)
        assert correction.unseen == 40
        assert correction.expire(4.0)
        assert correction.unseen == 0
        assert correction.blocks == 100  # its size does not change

    def test_pages_without_the_usage_of_the_cache_are_silence(self):
        correction = Correction()
        self.scrape(correction, [0.9] * 3)
        self.scrape(correction, [None] * 10, start=1.5)
        assert correction.at == 1.0

    def test_its_usage_is_the_mean_of_five_seconds_whether_its_size_is_known_or_not(self):
        correction = Correction()
        for second, usage in enumerate([0.1, 0.6, 0.9, math.nan, 0.9, 0.0, 0.6]):
            correction.observe(Scrape(at=float(second), kv_usage=usage), 0)
        assert correction.usage.mean(6.0) == pytest.approx(0.6)
        assert correction.usage.mean(11.0) == pytest.approx(0.6), "the last one alone"
        assert correction.usage.mean(11.1) is None, "silence is not an empty cache"

    def test_after_a_long_silence_the_next_one_is_seen_as_soon(self):
        correction = Correction()
        self.scrape(correction, [0.9] * 3)
        correction.expire(100.0)
        self.scrape(correction, [0.9] * 3, start=100.0)
        assert correction.unseen == 40
        assert correction.expire(104.0)

    def test_counters_of_an_engine_that_restarted_are_no_preemptions(self):
        correction = Correction()
        for number, preemptions in enumerate([50.0, 0.0, 0.0]):
            correction.observe(Scrape(at=number / 2, preemptions=preemptions), 0)
        assert correction.caution == 1.0

    def test_never_more_than_half_of_a_pod_is_taken_away(self):
        correction = Correction()
        self.scrape(correction, [1.0] * 5, known=0)
        assert correction.unseen == 50

    def test_preemptions_make_careful_for_a_while(self):
        correction = Correction()
        for number, preemptions in enumerate([5.0, 5.0, 7.0, 9.0]):
            correction.observe(Scrape(at=number / 2, preemptions=preemptions), 0)
        assert correction.caution == pytest.approx(2.25)
        for number in range(4, 100):
            correction.observe(Scrape(at=number / 2, preemptions=9.0), 0)
        assert correction.caution == 1.0
