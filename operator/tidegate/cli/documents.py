"""What the commands read: resources, nodes and model configs from files or standard input."""

import difflib
import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from tidegate.api.llmdeployment import KIND, LLMDeployment, parse
from tidegate.api.model_spec import ModelSpec
from tidegate.core import model_config, nodes
from tidegate.core.names import GPU_RESOURCE
from tidegate.core.nodes import COUNT_LABEL, MEMORY_LABEL, PRODUCT_LABEL, Node
from tidegate.core.render import manifest
from tidegate.errors import Invalid, Problem
from tidegate.facts import gpus

_GPUS_PER_NODE = 8

try:
    from yaml import CSafeLoader as _Loader
except ImportError:  # pragma: no cover - PyYAML without its C part
    from yaml import SafeLoader as _Loader  # type: ignore[assignment]


def read(path: str) -> list[dict[str, Any]]:
    """Read every document of a YAML or JSON file; `-` is standard input.

    Raises:
        Invalid: The file cannot be read or is no YAML, with the place of the fault.
    """
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text()
        documents = list(yaml.load_all(text, Loader=_Loader))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise Invalid([Problem(path, f"cannot be read: {_one_line(error)}")]) from error
    flat: list[dict[str, Any]] = []
    for document in documents:
        if isinstance(document, dict) and str(document.get("kind", "")).endswith("List"):
            flat += document.get("items") or []
        elif isinstance(document, dict):
            flat.append(document)
        elif document is not None:
            raise Invalid([Problem(path, "holds something that is not an object")])
    return flat


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
    if path is not None:
        return model_config.parse(Path(path).read_text(), f"--config {path}")
    text = None
    if model.config_ref is not None:
        text = _config_map_value(model.config_ref.name, model.config_ref.key, documents)
    return dict(model_config.of(model, text))


def _config_map_value(name: str, key: str, documents: Iterable[dict[str, Any]]) -> str | None:
    for document in documents:
        if document.get("kind") == "ConfigMap" and document["metadata"]["name"] == name:
            value: str | None = (document.get("data") or {}).get(key)
            return value
    return None


def nodes_of(path: str | None, products: Sequence[str]) -> list[Node]:
    """Return the nodes of a file (`kubectl get nodes -o yaml`), or imagined ones of products.

    Args:
        path: A file of Nodes.
        products: `PRODUCT` or `PRODUCT=GPUS_PER_NODE`, as GPU feature discovery writes products.
    """
    if path is not None and products:
        raise click.UsageError("give --nodes or --gpu, not both")
    if path is not None:
        found = [nodes.read(d) for d in read(path) if d.get("kind") == "Node"]
        if not found:
            raise Invalid([Problem(path, "holds no Node; write it with kubectl get nodes -o yaml")])
        return found
    if not products:
        raise click.UsageError("give --gpu PRODUCT or --nodes FILE to say what to size for")
    return [_imagined(text) for text in products]


def _imagined(text: str) -> Node:
    """Return one node for `PRODUCT[@MEMORY_MIB][=GPUS_PER_NODE]`."""
    named, _, count = text.partition("=")
    product, _, memory = named.partition("@")
    if count and not (count.isdigit() and 1 <= int(count) <= 64):
        raise click.UsageError(f"--gpu {text}: GPUs per node must be a number from 1 to 64")
    if memory and not memory.isdigit():
        raise click.UsageError(f"--gpu {text}: the memory label must be a number of MiB")
    _check_known(product, int(memory) if memory else None)
    per_node = int(count or _GPUS_PER_NODE)
    labels = {PRODUCT_LABEL: product, COUNT_LABEL: str(per_node)}
    if memory:
        labels[MEMORY_LABEL] = memory
    document = {
        "metadata": {"name": product, "labels": labels},
        "status": {"allocatable": {GPU_RESOURCE: per_node}},
    }
    return nodes.read(document)


def _check_known(product: str, memory_mib: int | None) -> None:
    if gpus.find(product, memory_mib) is not None or (memory_mib and not gpus.variants(product)):
        return
    sizes = gpus.variants(product)
    if sizes:
        named = ", ".join(f"{v.cuda_total.bytes / 2**30:.1f} GiB" for v in sizes)
        raise click.UsageError(
            f"--gpu {product}: sold with several memory sizes ({named}); give the node's "
            f"nvidia.com/gpu.memory label, as {product}@MIB"
        )
    known = gpus.known_products()
    close = [name for name in known if product.lower() in name.lower()][:4]
    close = close or difflib.get_close_matches(product, known, n=3, cutoff=0.4)
    raise click.UsageError(
        f"--gpu {product}: not in the catalogue; did you mean {', '.join(close)}? "
        f"An unknown card can be sized by its memory label, as {product}@MIB"
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def print_documents(documents: Sequence[Any], form: str) -> None:
    """Print documents as YAML (one after the other) or JSON (one list, or the single one)."""
    if form == "json":
        whole = documents[0] if len(documents) == 1 else documents
        click.echo(json.dumps(whole, indent=2, ensure_ascii=False))
        return
    click.echo(manifest.write(documents), nl=False)
