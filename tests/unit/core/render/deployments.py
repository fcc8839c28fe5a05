"""Deployments with a plan made by hand, so that these tests do not depend on how sizing counts."""

from typing import Any

from tidegate.api.figures import exact
from tidegate.api.llmdeployment import LLMDeploymentSpec, parse_spec
from tidegate.core import names, nodes
from tidegate.core.budget.engine_config import EngineConfig
from tidegate.core.budget.groups import Group
from tidegate.core.budget.pool import KVPool
from tidegate.core.budget.reach import AllTokens
from tidegate.core.budget.sizing import Budget, Sizing
from tidegate.core.plan import Plan, SlicePlan
from tidegate.core.render import render

VERSION = "0.32.0"
OWNER = render.Owner("chat", "qwen", "uid-1")
REVISION = "0123abcd"
A100, H100 = "NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3"


def spec(*, pools: dict[str, Any] | None = None, **parts: Any) -> LLMDeploymentSpec:
    """Read a spec with one unified pool, changed by `parts` (as they stand in the document)."""
    model = {"id": "org/model"} | parts.pop("model", {})
    engine = {"image": f"vllm/vllm-openai:v{VERSION}"} | parts.pop("engine", {})
    document = {"model": model, "engine": engine, "pools": pools or {"unified": {}}, **parts}
    return parse_spec({"spec": document})


def pair(**parts: Any) -> LLMDeploymentSpec:
    """Read a spec with prefill and decode pools."""
    return spec(pools={"prefill": {}, "decode": {"replicas": 2}}, **parts)


def node_class(product: str = H100) -> nodes.NodeClass:
    """Return the class of an 8-GPU node."""
    labels = {"nvidia.com/gpu.product": product, "nvidia.com/gpu.count": "8"}
    found = nodes.classify(labels, 8)
    assert found is not None
    return found


def sizing(kv_cache_memory_bytes: int | None = None) -> Sizing:
    """Return a sizing of round numbers."""
    nothing = exact(0)
    pool = KVPool(
        bytes_per_token=1024,
        block_size=16,
        bytes_per_block=(16384,),
        num_blocks=1001,
        blocks_per_request=128,
        blocks_per_request_by_group=(128,),
        max_concurrency=7.8,
        cache_size_tokens=16016,
        needed_bytes=128 * 16384,
        estimated_max_model_len=2048,
        max_model_len_that_fits=16000,
        fits=True,
        groups=(Group(16, (16384,), AllTokens()),),
    )
    return Sizing(
        budget=Budget(*[nothing] * 8),
        pool=pool,
        requests_at_max_model_len=7,
        requests_at_p95=None,
        because=(),
        gpu_memory_utilization=0.9,
        kv_cache_memory_bytes=kv_cache_memory_bytes,
    )


def slice_plan(
    asked: LLMDeploymentSpec, pool: str, product: str = H100, **config: Any
) -> SlicePlan:
    """Return one pool on one class; `config` changes the engine's configuration."""
    settled = asked.pools.by_name()[pool]
    engine = EngineConfig(
        version=VERSION,
        max_model_len=2048,
        max_num_seqs=64,
        max_num_batched_tokens=4096,
        kv_cache_skip_layers=tuple(asked.kv_cache.skip_layers),
        tensor_parallel=settled.tensor_parallel,
        pipeline_parallel=settled.pipeline_parallel,
        prefix_caching=asked.engine.prefix_caching,
        enforce_eager=asked.engine.enforce_eager,
        attention_backend=asked.engine.attention_backend,
    )
    return SlicePlan(
        pool=pool,
        node_class=node_class(product),
        nodes=2,
        replicas=settled.replicas,
        gpus=settled.tensor_parallel * settled.pipeline_parallel,
        engine=EngineConfig(**{**vars(engine), **config}),
        sizing=sizing(asked.budget.kv_cache),
        because=(),
    )


def plan(asked: LLMDeploymentSpec, products: tuple[str, ...] = (H100,), **config: Any) -> Plan:
    """Return a plan that puts every pool on every product."""
    slices = [
        slice_plan(asked, pool, product, **config)
        for pool in asked.pools.by_name()
        for product in products
    ]
    return Plan(
        mode="Unified" if asked.pools.unified else "PrefillDecode",
        revision=REVISION,
        engine_version=VERSION,
        slices=tuple(slices),
        exclusions=(),
        because=(),
    )


def rendered(asked: LLMDeploymentSpec, **config: Any) -> list[dict[str, Any]]:
    """Return every object of a deployment's pools."""
    return of_pools(render.render(OWNER, asked, plan(asked, **config)))


def gate_objects(asked: LLMDeploymentSpec, **told: Any) -> dict[str, dict[str, Any]]:
    """Return the objects of a deployment's gate, by kind."""
    documents = render.render(OWNER, asked, plan(asked), **told)
    gates = [found for found in documents if found not in of_pools(documents)]
    assert len({found["kind"] for found in gates}) == len(gates)
    return {found["kind"]: found for found in gates}


def of_pools(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the documents that belong to a pool."""
    return [found for found in documents if names.LABEL_POOL in found["metadata"]["labels"]]


def of_kind(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Return the documents of one kind."""
    return [document for document in documents if document["kind"] == kind]


def pod(asked: LLMDeploymentSpec, pool: str = "unified", **config: Any) -> dict[str, Any]:
    """Return the pod spec of a pool."""
    for document in of_kind(rendered(asked, **config), "Deployment"):
        if document["metadata"]["labels"]["tidegate.io/pool"] == pool:
            found: dict[str, Any] = document["spec"]["template"]["spec"]
            return found
    raise AssertionError(f"no Deployment of {pool}")


def container(asked: LLMDeploymentSpec, pool: str = "unified", **config: Any) -> dict[str, Any]:
    """Return the engine's container of a pool."""
    (found,) = pod(asked, pool, **config)["containers"]
    assert isinstance(found, dict)
    return found


def expanded(text: str, environment: dict[str, str]) -> str:
    """Expand `$(NAME)` as the kubelet does: `$$` is one `$`, unknown names stay."""
    out, rest = "", text
    while rest:
        before, dollar, rest = rest.partition("$")
        out += before
        if not dollar:
            return out
        if rest.startswith("$"):
            out, rest = out + "$", rest[1:]
        elif rest.startswith("(") and ")" in rest:
            name, _, rest = rest[1:].partition(")")
            out += environment.get(name, f"$({name})")
        else:
            out += "$"
    return out


def arguments(asked: LLMDeploymentSpec, pool: str = "unified", **config: Any) -> list[str]:
    """Return the arguments as the engine gets them, after Kubernetes' expansion."""
    secrets = {"HF_TOKEN": "secret", "HOME": "/cache"}
    return [expanded(entry, secrets) for entry in container(asked, pool, **config)["args"]]


def flag_values(asked: LLMDeploymentSpec, pool: str = "unified", **config: Any) -> dict[str, str]:
    """Return the `--flag=value` arguments as a mapping; flags without a value map to ''."""
    flags = (entry for entry in arguments(asked, pool, **config) if entry.startswith("--"))
    return {name: value for name, _, value in (flag.partition("=") for flag in flags)}
