"""What the commands read: resources, nodes and model configs from files or standard input."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

import click

from tidegate.api.llmdeployment import KIND, LLMDeployment, parse
from tidegate.api.model_spec import ModelSpec
from tidegate.cli import streams
from tidegate.cli.inputs import files, node_files, yaml_files
from tidegate.cli.planning import gpu_option
from tidegate.core import model_config
from tidegate.core.nodes import Node
from tidegate.core.render import manifest
from tidegate.errors import Invalid, Problem


def read(path: str) -> list[dict[str, Any]]:
    """Read every document of a YAML or JSON file; `-` is standard input.

    Raises:
        Invalid: The file cannot be read or is no YAML, with the place of the fault.
    """
    return [document for _, document in _placed(path)]


def _placed(path: str) -> list[tuple[str, dict[str, Any]]]:
    """Read every document with its place in the file, which errors name."""
    found: list[tuple[str, Any]] = []
    whole = yaml_files.documents(files.read(path, path), path)
    for number, document in enumerate(whole, 1):
        place = path if len(whole) == 1 else f"{path}: document {number}"
        if isinstance(document, dict) and str(document.get("kind", "")).endswith("List"):
            items = document.get("items") or []
            if not isinstance(items, list):
                raise Invalid([Problem(f"{place}: items", "must be a list")])
            found += [(f"{place}: items[{index}]", item) for index, item in enumerate(items)]
        elif document is not None:
            found.append((place, document))
    for place, document in found:
        if not isinstance(document, dict):
            raise Invalid([Problem(place, "holds something that is not an object")])
    return found


def deployments(path: str) -> list[tuple[LLMDeployment, list[dict[str, Any]]]]:
    """Read the LLMDeployments of a file, each with all documents of the file beside it.

    Raises:
        Invalid: A resource is wrong, or the file holds none.
    """
    return [(parse(document), beside) for document, beside in deployment_documents(path)]


def deployment_documents(path: str) -> list[tuple[dict[str, Any], list[dict[str, Any]]]]:
    """Read the LLMDeployments of a file as they are written, each with all documents beside it.

    Raises:
        Invalid: The file cannot be read, or holds none.
    """
    documents = read(path)
    found = [document for document in documents if document.get("kind") == KIND]
    if not found:
        raise Invalid([Problem(path, f"holds no {KIND}")])
    return [(document, documents) for document in found]


def config_of(
    model: ModelSpec, documents: Sequence[dict[str, Any]], path: str | None
) -> dict[str, Any]:
    """Return the model's config.json: the file given, or what the resource says of it."""
    config, index = (
        None if ref is None else _config_map_value(ref.name, ref.key, documents)
        for ref in (model.config_ref, model.weights.index_ref)
    )
    if path is not None:
        given = model_config.parse(files.read(path, "--config"), f"--config {path}")
        model = model.model_copy(update={"config": given, "config_ref": None})
    return dict(model_config.of(model, config, index))


def _config_map_value(name: str, key: str, documents: Iterable[dict[str, Any]]) -> str | None:
    for document in documents:
        metadata = document.get("metadata")
        is_named = isinstance(metadata, dict) and metadata.get("name") == name
        if document.get("kind") == "ConfigMap" and is_named:
            data = document.get("data") or {}
            if not isinstance(data, dict):
                raise Invalid([Problem(f"ConfigMap {name}: data", "must be an object")])
            value = data.get(key)
            if not isinstance(value, str | None):
                raise Invalid([Problem(f"ConfigMap {name}: data[{key}]", "must be a string")])
            return value
    return None


def nodes_of(path: str | None, products: Sequence[str]) -> list[Node]:
    """Return the nodes of a file (`kubectl get nodes -o yaml`), or imagined ones of products.

    Args:
        path: A file of Nodes.
        products: values of `--gpu`.
    """
    if path is not None and products:
        raise click.UsageError("give --nodes or --gpu, not both")
    if path is not None:
        found = node_files.read([one for one in _placed(path) if one[1].get("kind") == "Node"])
        if not found:
            raise Invalid([Problem(path, "holds no Node; write it with kubectl get nodes -o yaml")])
        return found
    if not products:
        raise click.UsageError("give --gpu PRODUCT or --nodes FILE to say what to size for")
    return [gpu_option.node(text) for text in products]


def print_documents(documents: Sequence[Any], form: str) -> None:
    """Print documents as YAML (one after the other) or JSON (one list, or the single one)."""
    if form == "json":
        whole = documents[0] if len(documents) == 1 else documents
        click.echo(json.dumps(whole, indent=2, ensure_ascii=not streams.is_unicode()))
        return
    click.echo(manifest.write(documents), nl=False)
