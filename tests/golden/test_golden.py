"""Rendered objects, whole: a change of what reaches the cluster shows as a change of a file.

    pytest tests/golden --update-golden

writes the files anew; read the diff before committing it.
"""

from pathlib import Path

import pytest
import yaml
from e2e.engine import tiny_model

from tidegate.api.llmdeployment import LLMDeployment, parse
from tidegate.core import model_config, nodes
from tidegate.core import plan as planning
from tidegate.core.render import manifest, render

HERE = Path(__file__).parent
CHECKOUT = HERE.parents[1]
EXAMPLES = sorted((CHECKOUT / "examples").rglob("*.yaml"))
HOSTILE = sorted((HERE / "hostile").glob("*.yaml"))


def _resource(path: Path) -> LLMDeployment:
    return parse(yaml.safe_load(path.read_text(encoding="utf-8")))


def _rendered(
    resource: LLMDeployment, every_label: bool = False, there: str = "nodes.yaml"
) -> list[dict]:
    """Render a resource for the nodes of a file.

    Where `every_label`, the nodes also have the labels and taints that the pools select.
    """
    items = yaml.safe_load((HERE / there).read_text(encoding="utf-8"))["items"]
    if every_label:
        for pool in resource.spec.pools.by_name().values():
            for item in items:
                own = item["metadata"]["labels"]
                item["metadata"]["labels"] = dict(pool.node_selector) | own
    cluster = [offer for item in items for offer in nodes.offers(item)]
    free = nodes.free_gpus(cluster, (), None, None)
    config = model_config.of(resource.spec.model, None)
    plan = planning.make(resource.spec, config, cluster, free, {})
    return render.preview(resource, plan)


def _compare(documents: list[dict], golden: Path, update: bool) -> None:
    text = manifest.write(documents)
    if update:
        golden.write_text(text, encoding="utf-8")
    assert golden.read_text(encoding="utf-8") == text
    assert list(yaml.safe_load_all(text)) == documents, "the file says the same as the objects"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_renders_as_it_did(path, update_golden):
    _compare(_rendered(_resource(path)), HERE / "rendered" / path.name, update_golden)


def test_a_pool_on_whole_cards_and_mig_devices_of_one_node_renders_as_it_did(update_golden):
    documents = _rendered(_resource(HERE / "mig" / "chat.yaml"), there="mig/nodes.yaml")

    _compare(documents, HERE / "rendered" / "mig-chat.yaml", update_golden)


@pytest.mark.parametrize("path", HOSTILE, ids=lambda path: path.stem)
def test_hostile_text_renders_as_it_did(path, update_golden):
    documents = _rendered(_resource(path), every_label=True)

    _compare(documents, HERE / "rendered" / f"hostile-{path.name}", update_golden)


@pytest.mark.parametrize("path", HOSTILE, ids=lambda path: path.stem)
def test_hostile_text_stays_data(path):
    resource = _resource(path)
    spec, pool = resource.spec, resource.spec.pools.by_name()["unified"]

    *_, deployment = _rendered(resource, every_label=True)
    template = deployment["spec"]["template"]
    (engine,) = template["spec"]["containers"]
    told = [_kubelet_expands(argument) for argument in engine["args"]]
    environment = {entry["name"]: entry for entry in engine["env"]}

    assert told[0] == spec.model.id
    first = told.index("--served-model-name") + 1
    assert told[first : first + len(spec.model.served_names)] == spec.model.served_names
    assert f"--revision={spec.model.revision}" in told
    assert spec.engine.extra_args[0] in told
    assert f"{spec.engine.extra_args[1]}={spec.engine.extra_args[2]}" in told
    for variable in spec.engine.env:
        if variable.value is not None:
            assert _kubelet_expands(environment[variable.name]["value"]) == variable.value
        else:
            assert environment[variable.name]["valueFrom"] == {
                "secretKeyRef": variable.secret_key_ref.wire()
            }
    assert pool.pod_template.labels.items() <= template["metadata"]["labels"].items()
    assert template["metadata"]["annotations"] == pool.pod_template.annotations
    assert template["spec"]["nodeSelector"] == pool.node_selector
    assert deployment["metadata"]["namespace"] == resource.metadata["namespace"]
    assert engine["image"] == spec.engine.image


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_describes_the_model_that_the_local_image_holds(path):
    model = _resource(path).spec.model
    if model.id == "/models/tiny-gqa":
        assert model.config is not None
        assert model.config.items() <= tiny_model.model_config("gqa").items()


def test_every_golden_file_has_its_resource():
    expected = {path.name for path in EXAMPLES} | {f"hostile-{path.name}" for path in HOSTILE}
    expected |= {f"mig-{path.name}" for path in (HERE / "mig").glob("chat.yaml")}

    assert {path.name for path in (HERE / "rendered").iterdir()} == expected


def _kubelet_expands(text: str) -> str:
    """Expand as the kubelet does in a pod where every name is set to something else."""
    parts = text.split("$$")
    assert not any("$(" in part for part in parts), f"{text} would be expanded"
    return "$".join(parts)
