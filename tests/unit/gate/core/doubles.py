"""What the tests of the gate's admission share: a choice without wits, and short ways to ask."""

from tidegate.api.gate_config import GateConfig, KVGroup, Limits, RevisionConfig, SliceConfig, Slo
from tidegate.gate.core.admissions import Admissions
from tidegate.gate.exchange import Ask, Caller, Pod, Seat, Surface, Why


class PlainChoice:
    """Chooses by room alone; a pod that failed so often is ejected."""

    def __init__(self):
        self.pods = {}
        self.config = None
        self.shares = None
        self.ejected = set()
        self.told = []

    def endpoints(self, pool, pods, now):
        self.pods[pool] = list(pods)

    def configure(self, config, now):
        self.config = config

    def candidates(self, pool, revision, prefix, load, now):
        pods = [
            pod
            for pod in self.pods.get(pool, ())
            if pod.revision == revision and not pod.terminating and pod.name not in self.ejected
        ]
        return sorted(pods, key=load)

    def revisions(self, ask):
        return [
            revision.name for revision in self.config.revisions if self._is_whole(revision.name)
        ]

    def succeeded(self, pod, ttft_seconds, now):
        self.told.append(("succeeded", pod))

    def failed(self, pod, now, *, unreachable=False):
        self.told.append(("failed", pod))

    def observe(self, pod, scrape):
        self.told.append(("observed", pod))

    def is_ejected(self, pod, now):
        return pod in self.ejected

    def able(self, ask):
        return [revision.name for revision in self.config.revisions]

    def complete(self, ask=None):
        if self.config is None or any(self._is_whole(r.name) for r in self.config.revisions):
            return None
        missing = [pool for pool in self.config.services if not self._ready(pool)]
        if "unified" in self.config.services:
            return Why.NO_ENDPOINTS
        return Why.NO_DECODE if "decode" in missing else Why.NO_PREFILL

    def has_ready(self, pool, ask=None):
        return bool(self._ready(pool))

    def share(self, ask, config, wall):
        return self.shares

    def _ready(self, pool, revision=None):
        return [
            pod
            for pod in self.pods.get(pool, ())
            if not pod.terminating and revision in (None, pod.revision)
        ]

    def _is_whole(self, revision):
        return all(self._ready(pool, revision) for pool in self.config.services)


def config(*, pair=False, blocks=100, block_tokens=16, seqs=64, speed=None, slo=None, **changes):
    """A deployment of pods with `blocks` blocks each."""
    pools = ("prefill", "decode") if pair else ("unified",)
    fields = {
        "namespace": "prod",
        "deployment": "chat",
        "generation": 1,
        "models": ["m"],
        "max_model_len": 65536,
        "gate_service": "chat",
        "services": {pool: f"chat-{pool}" for pool in pools},
        "slices": [
            SliceConfig(
                name=f"chat-{pool}",
                pool=pool,
                revision="r1",
                node_class="a100",
                kv_blocks=blocks,
                kv_tokens=blocks * block_tokens,
                groups=[KVGroup(block_tokens=block_tokens)],
                max_num_seqs=seqs,
                prefill_tokens_per_second=speed,
            )
            for pool in pools
        ],
        "revisions": [RevisionConfig(name="r1", weight=100)],
        "headroom": 1.0,
        "slo": slo or Slo(),
    }
    return GateConfig(**{**fields, **changes})


def pod(name="p0", pool="unified", **changes):
    fields = {
        "name": name,
        "address": "10.0.0.1",
        "port": 8000,
        "pool": pool,
        "revision": "r1",
        "slice_name": f"chat-{pool}",
    }
    return Pod(**{**fields, **changes})


def ask(prompt=100, limit=100, *, tenant="t", priority=5, own_limit=None, **changes):
    fields = {
        "request_id": "r",
        "surface": Surface.CHAT,
        "model": "m",
        "caller": Caller(tenant, priority, own_limit),
        "body": b"{}",
        "headers": (),
        "prompt_tokens": prompt,
        "output_limit": limit,
        "streams": True,
    }
    return Ask(**{**fields, **changes})


class Gate:
    """Admissions with a clock, and a list of what was decided."""

    def __init__(self, settings=None, *, pods=1, jitter=0.5, joins=False, choice=None):
        self.settings = settings or config()
        self.choice = choice or PlainChoice()
        self.core = Admissions(jitter=lambda: jitter, choice=self.choice, joins=joins)
        self.now = 0.0
        self.core.configure(self.settings, self.now)
        for pool in self.settings.services:
            names = [f"{pool[0]}{number}" for number in range(pods)]
            self.core.endpoints(pool, [pod(name, pool) for name in names], self.now)

    def ask(self, *args, **kwargs):
        """Ask; return the list in which the decision is, or will be."""
        return self.ask_for(ask(*args, **kwargs))[0]

    def ask_for(self, asked):
        decided = []
        ticket = self.core.ask(asked, self.now, self.now, decided.append)
        return decided, ticket

    def seat(self, *args, **kwargs):
        (seat,) = self.ask(*args, **kwargs)
        assert isinstance(seat, Seat), seat
        return seat

    def end(self, seat, outcome, usage=None):
        self.core.ended(seat, outcome, usage, self.now)

    def wait(self, seconds, step=0.05):
        end = self.now + seconds
        while self.now < end - 1e-9:
            self.now = min(end, self.now + step)
            self.core.tick(self.now, self.now)

    def view(self):
        return self.core.view(self.now, self.now)

    def book(self, name="u0"):
        """The ledger's page of a pod, as it is shown."""
        return next(view for view in self.view().pods if view.pod.name == name)


def limits(**changes):
    return Limits(**changes)
