"""`--gpu PRODUCT[@MIB[/CC]][=COUNT]`: a node that is imagined, in place of one of a cluster."""

import difflib
import re

import click

from tidegate.core import nodes
from tidegate.core.names import GPU_RESOURCE
from tidegate.core.nodes import (
    COUNT_LABEL,
    MAJOR_LABEL,
    MEMORY_LABEL,
    MINOR_LABEL,
    PRODUCT_LABEL,
    Node,
)
from tidegate.facts import gpus

_GPUS_PER_NODE = 8


def node(text: str) -> Node:
    """Return one node for an option's value."""
    named, _, count = text.partition("=")
    product, _, size = named.partition("@")
    memory, slash, capability = size.partition("/")
    if "=" in text and not (re.fullmatch("[0-9]{1,2}", count) and 1 <= int(count) <= 64):
        raise click.UsageError(f"--gpu {text}: GPUs per node must be a number from 1 to 64")
    if "@" in named and not (re.fullmatch("[0-9]{1,9}", memory) and int(memory)):
        raise click.UsageError(f"--gpu {text}: the memory label must be a number of MiB")
    if slash and not re.fullmatch(r"[0-9]{1,2}\.[0-9]", capability):
        raise click.UsageError(f"--gpu {text}: the compute capability must be as 9.0")
    _require_known(product, int(memory) if memory else None, capability)
    per_node = int(count or _GPUS_PER_NODE)
    labels = {PRODUCT_LABEL: product, COUNT_LABEL: str(per_node)}
    if memory:
        labels[MEMORY_LABEL] = memory
    if capability:
        labels[MAJOR_LABEL], labels[MINOR_LABEL] = capability.split(".")
    document = {
        "metadata": {"name": product, "labels": labels},
        "status": {"allocatable": {GPU_RESOURCE: per_node}},
    }
    return nodes.read(document)


def _require_known(product: str, memory_mib: int | None, capability: str) -> None:
    sizes = gpus.variants(product)
    is_known = bool(sizes) or gpus.find(product, memory_mib) is not None
    if is_known and capability:
        raise click.UsageError(
            f"--gpu {product}: the catalogue knows its compute capability; leave out /{capability}"
        )
    if gpus.find(product, memory_mib) is not None or (memory_mib and (sizes or capability)):
        return
    if sizes:
        named = ", ".join(f"{v.cuda_total.bytes / 2**30:.1f} GiB" for v in sizes)
        raise click.UsageError(
            f"--gpu {product}: sold with several memory sizes ({named}); give the node's "
            f"nvidia.com/gpu.memory label, as {product}@MIB"
        )
    known = gpus.known_products()
    close = [name for name in known if product and product.lower() in name.lower()][:4]
    close = close or difflib.get_close_matches(product, known, n=3, cutoff=0.4)
    asked = f"; did you mean {', '.join(close)}?" if close else "."
    raise click.UsageError(
        f"--gpu {product[:200]}: not in the catalogue{asked} An unknown card is sized by its "
        f"memory label and its compute capability: {product[:200] or 'PRODUCT'}@MIB/CC, "
        "such as @81559/9.0"
    )
