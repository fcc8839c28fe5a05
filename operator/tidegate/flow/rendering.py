"""What a pass wants to be there, as objects: slices that run keep the template of their making."""

from dataclasses import replace

from tidegate.api.llmdeployment import LLMDeploymentSpec
from tidegate.core import kept_rendering
from tidegate.core.canary import baseline as canary_baseline
from tidegate.core.gate_config import Around
from tidegate.core.plan import Plan
from tidegate.core.render import gate, render
from tidegate.core.render.network import Readers
from tidegate.core.rollout.slices import Decision
from tidegate.flow import slices
from tidegate.flow.gather import Snapshot
from tidegate.flow.ports import Document, Settings


def render_all(
    snapshot: Snapshot,
    spec: LLMDeploymentSpec,
    plan: Plan,
    decision: Decision,
    around: Around,
    settings: Settings,
    baseline: str | None = None,
) -> tuple[list[Document], tuple[str, ...]]:
    """Return the objects, and the names of the slices whose newer rendering waits.

    Of a canary's `baseline` the slices that are to be made are among them.

    Raises:
        Refused: Something that the user passes on to the pods may not reach them.
    """
    owner = render.Owner(snapshot.ref.namespace, snapshot.ref.name, snapshot.uid)
    scale = slices.scale(snapshot.ref.name, plan, decision)
    made = render.deployments(owner, spec, plan, scale)
    kept = kept_rendering.keep(made, snapshot.slices)
    documents = render.render(
        owner,
        spec,
        plan,
        readers=Readers(
            settings.scraper_namespace_labels,
            settings.scraper_pod_labels,
            settings.operator_namespace,
            settings.operator_pod_labels,
        ),
        around=replace(around, kept=kept_rendering.told(kept)),
        gate_image=gate.Image(settings.gate_image),
        slices=kept.slices,
    )
    if baseline is not None:
        documents += canary_baseline.to_make(
            snapshot.ref.name, snapshot.slices, baseline, decision.replicas
        )
    return documents, kept.waiting
