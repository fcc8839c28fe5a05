"""A rollout without a cluster: pods that come and go as a test says, and a clock."""

from dataclasses import dataclass, field, replace

from tidegate.core.analysis.evidence import Judgement, Verdict
from tidegate.core.canary import record, shares, steps, targets
from tidegate.core.canary.advance import advance
from tidegate.core.canary.policy import Policy, Step
from tidegate.core.canary.seen import Look, PoolSize, RevisionPods, Seen
from tidegate.core.canary.state import State

STEPS = (Step(100, 60.0, is_judged=True), Step(300, 30.0, is_judged=False), Step(500, 60.0, True))


def policy(**changes) -> Policy:
    wishes = Policy("Canary", STEPS, 600.0, 10.0, False, 120.0)
    return replace(wishes, **changes)


def unified(ready: int, asked: int | None = None) -> RevisionPods:
    asked = ready if asked is None else asked
    return RevisionPods({"unified": asked}, {"unified": ready}, live=asked)


def judged(
    verdict: Verdict,
    requests: float = 100.0,
    asked_since: float | None = None,
    until: float | None = None,
) -> Look:
    judgement = Judgement(verdict, (), f"it is {verdict}")
    return Look(requests, judgement, asked_since=asked_since, until=until)


@dataclass
class Rollout:
    """`pods` are ready pods by revision; `replicas` is what the spec asks for.

    `asked_from` is when requests begin to come to the canary.
    Those of the revisions in `down` are there, but not ready.
    """

    wanted: str = "a"
    replicas: int = 10
    extra: int = 1
    now: float = 1_000_000.0
    wishes: Policy = field(default_factory=policy)
    pods: dict[str, int] = field(default_factory=lambda: {"a": 10})
    down: set[str] = field(default_factory=set)
    requests: float = 0.0
    asked_from: float = 0.0
    trouble: str = ""
    is_blocked: bool = False
    state: State | None = None

    def seen(self, look: Look | None = None) -> Seen:
        return Seen(
            now=self.now,
            wanted=self.wanted,
            policy=self.wishes,
            pools={"unified": PoolSize(self.replicas, self.extra)},
            pods={
                name: unified(0 if name in self.down else count, count)
                for name, count in self.pods.items()
            },
            trouble=self.trouble,
            is_blocked=self.is_blocked,
            look=look,
        )

    def turn(self, verdict: Verdict | None = None) -> State:
        """Take a turn; whoever looks now gets the verdict, or without one nothing at all."""
        state = record.rounded(advance(self.state, self.seen()), self.wishes)
        if steps.wants_look(state, self.seen()):
            look = self.look(state, verdict) if verdict is not None else Look(None)
            state = record.rounded(advance(state, self.seen(look)), self.wishes)
        self.state = state
        return state

    def look(self, state: State, verdict: Verdict) -> Look:
        """Return a look at requests that come all the time."""
        self.requests += 100
        asked = max(steps.warm_at(state, self.seen()), state.ready_since or 0.0, self.asked_from)
        return judged(verdict, self.requests, asked, until=self.now)

    def follow(self) -> None:
        """Let the cluster do at once what the targets say."""
        assert self.state is not None
        wanted = targets.of(self.state, self.seen())
        self.pods = {name: pools["unified"] for name, pools in wanted.items() if pools["unified"]}

    def shares(self) -> dict[str, int]:
        assert self.state is not None
        return shares.of(self.state, self.seen())

    def go_on(self, seconds: float, verdict: Verdict | None = None, every: float = 5.0) -> State:
        end = self.now + seconds
        state = self.turn(verdict)
        while self.now < end:
            self.now += every
            self.follow()
            state = self.turn(verdict)
        return state
