"""One case of a batch: a model, an engine's flags and a GPU, as they are asked about."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tidegate.api.reasons import Reason
from tidegate.core.batch import card, document, releases
from tidegate.core.batch.releases import Release
from tidegate.core.budget.sizing import Workload
from tidegate.core.command_line import arguments
from tidegate.errors import Refused
from tidegate.facts import models
from tidegate.facts.gpus import Gpu

_KEYS = ("id", "model", "engine", "gpu", "availableKvBytes", "workload")


@dataclass(frozen=True)
class Case:
    """A case, read: `available_kv_bytes` is of each GPU, None where the budget is to say it."""

    model_config: Mapping[str, Any]
    release: Release
    arguments: Mapping[str, Any]
    gpu: Gpu
    available_kv_bytes: int | None
    workload: Workload | None


def read(case: Mapping[str, Any]) -> Case:
    """Read a case.

    Raises:
        Invalid: A key is unknown, missing or of the wrong type.
        Refused: The model, the version, the GPU or a flag is not known.
    """
    document.known(case, _KEYS, "")
    asked = document.mapping(case, "engine") or {}
    document.known(asked, ("version", "args"), "engine")
    release = releases.find(document.text(asked, "version", "engine"))
    flags = document.mapping(asked, "args", "engine") or {}
    if "model" in flags:
        document.fault("engine.args.model", "give the model as model.id or model.config")
    return Case(
        model_config=_model_config(case),
        release=release,
        arguments=arguments.read(flags, release.engine, "engine.args"),
        gpu=card.read(case),
        available_kv_bytes=document.whole(case, "availableKvBytes"),
        workload=_workload(case),
    )


def _model_config(case: Mapping[str, Any]) -> Mapping[str, Any]:
    asked = document.mapping(case, "model")
    if asked is None:
        document.fault("model", 'is missing; give {"id": ...} or {"config": {...}}')
    document.known(asked, ("id", "config"), "model")
    config = document.mapping(asked, "config", "model")
    model_id = document.text(asked, "id", "model")
    if config is not None:
        return config
    if model_id is None:
        document.fault("model", "needs id (known to the catalogue) or config (config.json)")
    known = models.find(model_id)
    if known is None:
        raise Refused(
            Reason.MODEL_UNKNOWN,
            f"the catalogue does not know {model_id[:200]}; give its config.json as model.config",
            "model.id",
        )
    return known.config


def _workload(case: Mapping[str, Any]) -> Workload | None:
    asked = document.mapping(case, "workload")
    if asked is None:
        return None
    document.known(asked, ("promptTokens", "outputTokens"), "workload")
    return Workload(_p95(asked, "promptTokens"), _p95(asked, "outputTokens"))


def _p95(workload: Mapping[str, Any], key: str) -> int:
    where = f"workload.{key}"
    length = document.mapping(workload, key, "workload")
    if length is None:
        document.fault(where, 'is missing; give {"p95": tokens}')
    document.known(length, ("mean", "p95"), where)
    document.whole(length, "mean", where, at_least=1)
    tokens = document.whole(length, "p95", where, at_least=1)
    if tokens is None:
        document.fault(f"{where}.p95", "is missing")
    return tokens
