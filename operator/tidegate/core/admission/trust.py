"""Arguments that are the user's to give, and let others do more: code of a repository, clients."""

from collections.abc import Iterator, Mapping

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.api.reasons import Reason
from tidegate.core import resolve
from tidegate.core.admission.finding import Finding, warning
from tidegate.errors import Refused
from tidegate.facts.flags import Match

_FIELD = "spec.engine.extraArgs"
_TRUSTING: Mapping[str, str] = {
    "--allowed-local-media-path": "clients can have the engine read files of its container",
    "--enable-mm-embeds": "clients can send tensors, which are read without further checks",
    "--enable-prompt-embeds": "clients can send tensors, which are read without further checks",
    "--trust-remote-code": "Python code of the model's repository runs in the engine",
    "--trust-request-chat-template": "clients can send templates that the engine runs",
    "--trust-request-mm-kwargs": "clients can set arguments of the media processor",
}
_UNPINNED = "; model.revision is no commit, so that code may change at every start"
_COMMIT_LENGTH = 40


def check(spec: LLMDeploymentSpec) -> Iterator[Finding]:
    """Yield a warning for each argument that gives trust away."""
    try:
        engine = resolve.engine_of(spec.engine)
    except Refused:
        return  # told by the fit, and no argument can be read without a version
    for argument in spec.engine.extra_args:
        match = engine.resolve(argument) if argument.startswith("-") else None
        if isinstance(match, Match) and match.flag.name in _TRUSTING and not match.is_negated:
            told = _TRUSTING[match.flag.name]
            runs_code = match.flag.name == "--trust-remote-code"
            more = _UNPINNED if runs_code and not _is_pinned(spec) else ""
            yield warning(Reason.TRUSTS_OTHERS, _FIELD, f"{match.flag.name}: {told}{more}")


def _is_pinned(spec: LLMDeploymentSpec) -> bool:
    """Say whether the code cannot change: by a commit, or because the files are in the cluster."""
    source, revision = spec.model.source, spec.model.revision or ""
    is_local = spec.model.id.startswith("/") or (source and source.persistent_volume_claim)
    is_commit = len(revision) == _COMMIT_LENGTH and all(c in "0123456789abcdef" for c in revision)
    return bool(is_local) or is_commit
