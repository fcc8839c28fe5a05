"""When a pod takes one request more."""

import pytest
from tests.unit.gate.core import doubles

from tidegate.api.gate_config import KVGroup, Limits, SliceConfig, Slo
from tidegate.gate.exchange import Outcome, Refusal, Scrape, Seat, Shift, Surface, Usage, Why

NO_QUEUE = Limits(max_queue=0)


def gate(pods=1, joins=False, **settings):
    settings = {"limits": NO_QUEUE, **settings}
    return doubles.Gate(doubles.config(**settings), pods=pods, joins=joins)


def decision(answers):
    (answer,) = answers
    return "seat" if isinstance(answer, Seat) else answer.why


@pytest.mark.parametrize(
    ("settings", "inside", "asked", "expected"),
    [
        pytest.param({}, [(800, 100)], (588, 100), "seat", id="tokens fit"),
        pytest.param({}, [(800, 100)], (589, 100), Why.KV_BUDGET, id="one block too many"),
        pytest.param({"seqs": 2}, [(16, 16), (16, 16)], (16, 16), Why.MAX_SEQS, id="enough run"),
        pytest.param(
            {"speed": 1000.0, "slo": Slo(time_to_first_token="1s")},
            [(400, 16)],
            (600, 16),
            "seat",
            id="prompts ahead leave time",
        ),
        pytest.param(
            {"speed": 1000.0, "slo": Slo(time_to_first_token="1s")},
            [(400, 16)],
            (601, 16),
            Why.TTFT_SLO,
            id="it would be late",
        ),
        pytest.param(
            {"speed": 1000.0, "slo": Slo(time_to_first_token="1s")},
            [(510, 16)],
            (10, 16),
            Why.TTFT_SLO,
            id="a pod is fed half of the SLO at most",
        ),
    ],
)
def test_a_pod_takes_what_fits_and_is_in_time(settings, inside, asked, expected):
    tried = gate(**settings)
    for request in inside:
        tried.seat(*request)
    assert decision(tried.ask(*asked)) == expected


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param({"prompt": 1580, "limit": 16000}, id="more than its share of the KV"),
        pytest.param({"prompt": 10, "limit": 10, "samples": 9}, id="more sequences"),
        pytest.param({"prompt": 1500, "limit": 1}, id="a prompt that is late in any case"),
    ],
)
def test_an_idle_pod_takes_anything_that_it_can_hold(asked):
    tried = gate(
        seqs=4, speed=100.0, slo=Slo(time_to_first_token="1s", time_per_output_token="1ms")
    )
    tried.core.gates(3)
    assert decision(tried.ask(**asked)) == "seat"
    assert isinstance(tried.ask(**asked)[0], Refusal)


def test_what_never_fits_is_refused_at_once_with_the_numbers():
    (refusal,) = gate().ask(1601, 100)
    assert (refusal.status, refusal.why) == (400, Why.TOO_LONG)
    assert refusal.retry_after_seconds is None
    assert "1601 tokens takes 101 blocks" in refusal.message
    assert "an empty engine has 100" in refusal.message


HALF = {"characters": 44_000, "fewest_tokens": 5500}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        pytest.param({"prompt": 9600}, Why.TOO_LONG, id="ids that leave no block for an answer"),
        pytest.param({"prompt": 9584}, "seat", id="ids that do"),
        pytest.param({"prompt": 11_000, **HALF}, "seat", id="text that may be shorter"),
        pytest.param({"prompt": 19_400, "fewest_tokens": 9700}, Why.TOO_LONG, id="text too long"),
        pytest.param(
            {"prompt": 50_000, "samples": 100, "prompts": 100, "fewest_tokens": 500},
            "seat",
            id="many prompts, each of which fits",
        ),
        pytest.param(
            {"prompt": 9800, "samples": 2, "prompts": 2, "fewest_tokens": 9700},
            Why.TOO_LONG,
            id="two prompts of which one never fits",
        ),
    ],
)
def test_only_what_surely_fits_no_empty_pod_is_refused_for_ever(asked, expected):
    assert decision(gate(blocks=600).ask(**asked)) == expected


def test_a_text_is_told_what_it_has_at_least():
    (refusal,) = gate(blocks=600).ask(19_400, fewest_tokens=9700)
    assert "A prompt of at least 9700 tokens takes 607 blocks" in refusal.message


@pytest.mark.parametrize("pair", [False, True])
def test_no_request_reserves_more_than_a_pod_has(pair):
    tried = gate(blocks=600, pair=pair)
    seat = tried.seat(11_000, 4000, characters=44_000, fewest_tokens=5500)
    assert [page.reserved_blocks for page in tried.view().pods] == [600] * (2 if pair else 1)
    tried.core.prefilled(seat, tried.now)
    tried.core.first_token(seat, tried.now)
    tried.core.produced(seat, 3000, tried.now)
    assert tried.book("d0" if pair else "u0").reserved_blocks == 600
    tried.end(seat, Outcome.FINISHED, Usage(7000, 3000))
    assert [page.reserved_blocks for page in tried.view().pods] == [0] * (2 if pair else 1)


def test_what_it_reserves_is_of_the_pod_that_it_is_seated_on():
    tried = gate(blocks=600, pods=2)
    for name, blocks in (("u0", 101), ("u1", 901)):
        tried.core.observe(name, Scrape(at=0.0, num_gpu_blocks=blocks))
    for _ in range(2):
        tried.seat(16_000, 16, fewest_tokens=1600)
    assert [page.reserved_blocks for page in tried.view().pods] == [100, 900]


def test_too_long_is_judged_by_the_largest_pod_that_there_may_be():
    small = doubles.config().slices[0]
    large = SliceConfig(**{**small.model_dump(), "name": "chat-large", "kv_blocks": 1000})
    tried = gate(slices=[small, large])
    assert decision(tried.ask(5000)) != Why.TOO_LONG
    assert decision(tried.ask(16_001)) == Why.TOO_LONG


def test_tokenize_takes_no_kv():
    tried = gate()
    tried.seat(800, 800)
    tried.seat(99_999, 0, surface=Surface.TOKENIZE)
    assert tried.book().reserved_tokens == 800 + 256


FULL = {
    "sequences": {"seqs": 1},
    "KV": {"blocks": 66},
    "time": {"speed": 800.0, "slo": Slo(time_to_first_token="1s")},
}


@pytest.mark.parametrize("surface", [Surface.TOKENIZE, Surface.MODELS])
@pytest.mark.parametrize("settings", FULL.values(), ids=FULL)
def test_what_takes_no_room_of_an_engine_is_served_by_a_full_one(settings, surface):
    tried = gate(**{**settings, "limits": Limits()})
    tried.seat(800, 800)
    tried.ask(800, 800)  # waits, or is refused

    for _ in range(3):
        tried.seat(0, 0, surface=surface)


def test_what_takes_no_room_of_an_engine_takes_none_from_others():
    tried = gate(seqs=1, speed=1000.0)
    helps = [tried.seat(0, 0, surface=Surface.TOKENIZE) for _ in range(5)]
    tried.now += 10
    seat = tried.seat(800, 16)
    tried.now += 0.8
    tried.core.first_token(seat, tried.now)
    for one in helps:
        tried.core.first_token(one, tried.now)
        tried.end(one, Outcome.FINISHED)

    assert tried.book().prefill_tokens_per_second == pytest.approx(1000.0)
    assert decision(tried.ask(16, 16)) == Why.MAX_SEQS


def test_a_liar_who_asks_for_32k_and_uses_50_does_not_starve_others():
    tried = gate(blocks=500, speed=1e6)
    for _ in range(8):
        tried.end(tried.seat(100, 32_000), Outcome.FINISHED, Usage(100, 50))
    seated = 0
    while isinstance(tried.ask(100, 32_000)[0], Seat):
        seated += 1
    assert seated == 500 // 10  # 150 tokens each, and not 32,100


def test_answers_that_may_not_end_early_are_not_given_more_room_than_there_is():
    tried = gate(blocks=1000, speed=1e6)
    for _ in range(30):
        tried.end(tried.seat(100, 64), Outcome.FINISHED, Usage(100, 64))
    seated = 0
    while isinstance(tried.ask(100, 4000, least_expected=4000)[0], Seat):
        seated += 1
    assert seated == 1000 * 16 // (100 + 4000)


def test_an_answer_that_runs_on_reserves_more_as_it_goes():
    tried = gate(blocks=500)
    for _ in range(8):
        tried.end(tried.seat(100, 4000), Outcome.FINISHED, Usage(100, 100))
    seat = tried.seat(100, 4000)
    tried.core.first_token(seat, tried.now)
    held = []
    for _ in range(10):
        tried.core.produced(seat, 50, tried.now)
        held.append(tried.book().reserved_tokens)
    assert held[0] == 200  # what was expected is enough at first
    assert held == sorted(held)
    assert held[-1] >= 100 + 500 + 100 // 4
    tried.core.produced(seat, 3490, tried.now)
    assert tried.book().reserved_tokens == 100 + 4000  # never more than its limit


def test_samples_share_the_prompt_but_not_the_answers():
    tried = gate()
    tried.seat(160, 32, samples=3)
    assert tried.book().reserved_tokens == 160 + 3 * 32
    assert tried.book().reserved_blocks == 10 + 2 + 2 * 2


def test_windows_cap_the_blocks_of_their_groups():
    groups = [KVGroup(block_tokens=16), KVGroup(block_tokens=16, cap_tokens=64, extra_blocks=1)]
    part = SliceConfig(**{**doubles.config().slices[0].model_dump(), "groups": groups})
    tried = gate(slices=[part])
    tried.seat(160, 32)
    assert tried.book().reserved_blocks == 12 + (4 + 1)


@pytest.mark.parametrize(("gates", "seats"), [(1, 10), (2, 5), (3, 3), (50, 1)])
def test_each_gate_takes_its_share_of_every_pod(gates, seats):
    tried = gate(blocks=100, speed=1e6)
    tried.core.gates(gates)
    got = 0
    while got < 20 and isinstance(tried.ask(100, 60)[0], Seat):
        got += 1
    assert got == seats


class TestAGateThatJoinsOthers:
    """Those who had a larger share hold it until their requests end."""

    def used(self, tried, share):
        tried.core.observe("u0", Scrape(at=tried.now, kv_usage=share, num_gpu_blocks=101))
        return tried.book().capacity_blocks

    def test_it_takes_nothing_that_they_may_still_need(self):
        tried = gate(blocks=100, joins=True)
        tried.core.gates(2)

        assert self.used(tried, 0.6) == 1

    def test_it_has_its_part_at_once_where_the_engine_shows_room(self):
        tried = gate(blocks=100, joins=True)
        tried.core.gates(2)

        assert self.used(tried, 0.2) == 50

    def test_its_own_requests_are_not_taken_for_theirs(self):
        tried = gate(blocks=100, joins=True)
        tried.core.gates(2)
        self.used(tried, 0.0)
        tried.core.first_token(tried.seat(600, 60), tried.now)

        assert self.used(tried, 0.4) == 50

    def test_it_has_its_part_in_the_end_though_the_engine_tells_nothing(self):
        tried = gate(blocks=100, joins=True)
        tried.core.gates(2)
        tried.wait(31, step=1.0)

        assert tried.book().capacity_blocks == 50

    def test_what_the_others_take_of_their_own_part_later_changes_nothing(self):
        tried = gate(blocks=100, joins=True)
        tried.core.gates(2)
        self.used(tried, 0.0)

        assert self.used(tried, 0.5) == 50

    def test_what_one_that_leaves_still_holds_is_not_given_again(self):
        tried = gate(blocks=100)
        tried.core.gates(2)
        tried.core.gates(1)

        assert self.used(tried, 0.4) == 50
        assert self.used(tried, 0.1) == 80
        assert self.used(tried, 0.0) == 100


class TestAPodThatIsIdleOnlyForThisGate:
    """Nothing of this gate is there, and another gate's requests may be."""

    LONG = 14_400  # 900 of 1,000 blocks
    SLO = Slo(time_to_first_token="60s")

    def beside(self, used=None, *, gates=2, running=1, waiting=0, pair=False):
        """One of so many gates, that the pod has told how much of it is used."""
        tried = doubles.Gate(
            doubles.config(pair=pair, blocks=1000, headroom=0.95, speed=1000.0, slo=self.SLO)
        )
        tried.core.gates(gates)
        if used is not None:
            self.tells(tried, used, running, waiting, name="p0" if pair else "u0")
        return tried

    def tells(self, tried, used, running=1, waiting=0, name="u0"):
        told = Scrape(tried.now, used, 1001, running, waiting)
        tried.core.observe(name, told)
        tried.wait(0.05)

    @pytest.mark.parametrize(
        ("told", "blocks", "is_seated"),
        [
            pytest.param({}, 900, True, id="the pod has told nothing"),
            pytest.param({"used": 0.0, "running": 0}, 1000, True, id="nothing is there"),
            pytest.param(
                {"used": 0.4, "running": 0}, 900, True, id="what is kept of one that ended"
            ),
            pytest.param({"used": 0.05}, 900, True, id="it fits beside what is there"),
            pytest.param({"used": 0.06}, 900, False, id="it does not fit beside what is there"),
            pytest.param(
                {"used": 0.06, "running": 0, "waiting": 1}, 900, False, id="one is to come"
            ),
            pytest.param({"used": 0.06, "running": None}, 900, False, id="numbers are not told"),
            pytest.param({"used": 0.9}, 400, True, id="its own part is its own"),
            pytest.param({"used": 0.9, "gates": 1}, 900, True, id="there is no other gate"),
        ],
    )
    def test_it_takes_what_the_pod_shows_room_for_and_no_more(self, told, blocks, is_seated):
        decided = self.beside(**told).ask(16 * blocks - 16, 16)
        assert [type(one) for one in decided] == [Seat] * is_seated

    @pytest.mark.parametrize(("used", "is_seated"), [(0.06, False), (0.05, True)])
    def test_so_does_the_prefill_pod_of_a_pair(self, used, is_seated):
        decided = self.beside(used, pair=True).ask(self.LONG, 16)
        assert [type(one) for one in decided] == [Seat] * is_seated

    def test_long_prompts_to_several_gates_go_one_after_another(self):
        gates = [self.beside(0.0, running=0) for _ in range(3)]
        asked = [tried.ask(self.LONG, 16) for tried in gates[:1]]
        for tried in gates:
            self.tells(tried, 0.91)
        asked += [tried.ask(self.LONG, 16) for tried in gates[1:]]
        assert [len(decided) for decided in asked] == [1, 0, 0]

        gates[0].end(asked[0][0], Outcome.FINISHED, Usage(self.LONG, 16))
        self.tells(gates[1], 0.0, running=0)
        assert [len(decided) for decided in asked] == [1, 1, 0]

    def test_what_is_left_of_its_own_last_request_is_nobody_elses(self):
        tried = self.beside(0.0, running=0)
        seat = tried.seat(self.LONG, 16)
        self.tells(tried, 0.91)
        tried.end(seat, Outcome.FINISHED, Usage(self.LONG, 16))
        assert isinstance(tried.ask(self.LONG, 16)[0], Seat)

    def test_a_pod_that_has_been_silent_for_long_shows_nothing(self):
        tried = self.beside(0.91)
        waiting = tried.ask(self.LONG, 16)
        tried.wait(4.0)
        assert isinstance(waiting[0], Seat)

    def test_one_that_was_overtaken_enough_waits_for_nobody_elses_end(self):
        tried = self.beside(0.91)
        waiting = tried.ask(self.LONG, 16)
        passed = 0
        while not waiting and passed < 10:
            seat = tried.seat(6400, 16)
            passed += 1
            self.tells(tried, 0.91, running=2)
            assert waiting == []
            tried.end(seat, Outcome.FINISHED, Usage(6400, 16))
        assert (len(waiting), passed) == (1, 3)  # 3 x 6,416 tokens are more than 14,416


def test_headroom_is_kept_free():
    tried = gate(blocks=100, headroom=0.8)
    assert tried.book().capacity_blocks == 80


def test_the_engine_knows_its_size_better_than_the_plan():
    tried = gate(blocks=100)
    tried.core.observe("u0", Scrape(at=0.0, num_gpu_blocks=51))
    assert tried.book().capacity_blocks == 50  # one is the engine's own


def test_a_declared_time_per_token_bounds_how_many_run():
    tried = gate(blocks=10_000, seqs=1000, slo=Slo(time_per_output_token="30ms"))
    running = []
    for _ in range(60):
        answer = tried.ask(16, 2000)[0]
        if not isinstance(answer, Seat):
            assert answer.why is Why.TPOT_SLO
            break
        tried.core.first_token(answer, tried.now)
        running.append(answer)
        for _ in range(3):  # an engine whose pace falls by 1 ms with each that runs
            tried.now += 16 * 0.001 * len(running)
            for seat in running:
                tried.core.produced(seat, 16, tried.now)
    assert 26 <= len(running) <= 34


def test_without_any_measure_only_a_few_prompts_are_let_in_at_first():
    tried = gate(blocks=10_000, seqs=1000)
    answers = [tried.ask(16, 16)[0] for _ in range(20)]
    assert [isinstance(answer, Seat) for answer in answers].count(True) == 4
    assert answers[-1].why is Why.TTFT_SLO


def test_the_slo_is_learned_from_idle_pods():
    tried = gate(blocks=10_000, seqs=1000)
    for _ in range(20):
        seat = tried.seat(300, 16)
        tried.now += 0.3
        tried.core.first_token(seat, tried.now)
        tried.end(seat, Outcome.FINISHED, Usage(300, 16))
    tried.wait(0.05)
    # 300 tokens take 0.3 s and the SLO is 5 times that: a pod is fed 750 tokens, then one more.
    seats = 0
    while isinstance(tried.ask(300, 16)[0], Seat):
        seats += 1
    assert seats == 3


def test_shares_set_from_outside_come_before_the_queue():
    tried = gate()
    tried.choice.shares = Why.SHED
    (refusal,) = tried.ask()
    assert (refusal.status, refusal.why) == (429, Why.SHED)
    tried.choice.shares = Shift("other")
    assert tried.ask() == [Shift("other")]


@pytest.mark.parametrize("own_limit", [None, 300])
def test_a_tenant_holds_no_more_than_its_limit(own_limit):
    general = 300 if own_limit is None else 5000
    limits = Limits(max_queue=0, tenant_tokens_in_flight=general)
    tried = gate(limits=limits)
    first = tried.seat(100, 50, tenant="a", own_limit=own_limit)
    tried.seat(100, 50, tenant="a", own_limit=own_limit)
    (refusal,) = tried.ask(100, 50, tenant="a", own_limit=own_limit)
    assert (refusal.status, refusal.why) == (429, Why.TENANT_SHARE)
    tried.seat(100, 50, tenant="b")
    tried.end(first, Outcome.CLIENT_GONE)
    tried.seat(100, 50, tenant="a", own_limit=own_limit)


def test_a_pod_that_says_it_is_full_is_left_alone_for_a_moment():
    tried = gate(pods=2)
    tried.end(tried.seat(10), Outcome.ENGINE_FULL)
    assert [tried.seat(10).pod.name for _ in range(3)] == ["u1"] * 3
    tried.wait(1.0)
    assert tried.seat(10).pod.name == "u0"
    assert ("failed", "u0") not in tried.choice.told


@pytest.mark.parametrize("outcome", Outcome)
def test_only_what_the_engine_did_counts_against_its_pod(outcome):
    """The user's own limit of a whole answer, a client that leaves and a gate that stops do not."""
    tried = gate()
    tried.end(tried.seat(10), outcome)
    of_the_engine = {Outcome.ENGINE_FAILED, Outcome.UNREACHABLE, Outcome.DEADLINE}
    assert (("failed", "u0") in tried.choice.told) == (outcome in of_the_engine)


def test_without_configuration_nothing_is_served():
    core = doubles.Admissions(jitter=lambda: 0.5, choice=doubles.PlainChoice())
    answers = []
    core.ask(doubles.ask(), 0.0, 0.0, answers.append)
    assert (answers[0].status, answers[0].why) == (503, Why.NO_CONFIGURATION)


def test_a_whole_answer_frees_the_prefill_when_it_should_be_done():
    tried = gate(speed=1000.0, slo=Slo(time_to_first_token="1s"))
    tried.seat(400, 200, streams=False)
    assert tried.book().prefill_backlog_tokens == 400
    tried.wait(0.5)
    assert tried.book().prefill_backlog_tokens == 0
    assert tried.book().prefill_tokens_per_second == pytest.approx(1000)
