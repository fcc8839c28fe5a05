"""The pods of a gate that runs without a cluster: a file in place of EndpointSlices."""

from typing import Annotated

from pydantic import Field, ValidationError

from tidegate.api.gate_config import GateConfig, PoolName
from tidegate.api.problems import problems
from tidegate.api.wire import Text, Wire
from tidegate.errors import Invalid, Problem
from tidegate.gate.exchange import Pod
from tidegate.gate.shell.endpoints import Endpoints


class EndpointEntry(Wire):
    """One engine."""

    name: Text
    """Its name, which metrics and `/podz` show."""
    slice: Text
    """The entry of the configuration's `slices` that it belongs to."""
    address: Text
    """Its IP address."""
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    """Its port; the configuration's `enginePort` when absent."""
    terminating: bool = False
    """Whether it is to get nothing new."""


class EndpointsFile(Wire):
    """The whole file, as JSON."""

    pods: Annotated[list[EndpointEntry], Field(max_length=1024)]
    """The engines."""
    gates: Annotated[int, Field(ge=1, le=1024)] = 1
    """Gates that share them, this one included."""


def read(data: bytes) -> EndpointsFile:
    """Read the file.

    Raises:
        Invalid: It is no JSON, or a field is wrong.
    """
    try:
        return EndpointsFile.model_validate_json(data)
    except ValidationError as error:
        raise Invalid(problems(error, EndpointsFile)) from error


def endpoints(file: EndpointsFile, config: GateConfig) -> Endpoints:
    """Return the pods as EndpointSlices would have told them.

    Raises:
        Invalid: An engine's slice is none of the configuration's, or two have one name.
    """
    known = {entry.name: entry for entry in config.slices}
    pods: dict[PoolName, tuple[Pod, ...]] = {pool: () for pool in config.services}
    places: dict[str, int] = {}
    for index, entry in enumerate(file.pods):
        first = places.setdefault(entry.name, index)
        if first != index:
            message = f"{entry.name} is the name of pods[{first}], too; give each its own"
            raise Invalid([Problem(f"pods[{index}].name", message)])
        slice_config = known.get(entry.slice)
        if slice_config is None or slice_config.pool not in pods:
            names = ", ".join(known) or "none"
            message = f"{entry.slice} is no slice of the configuration; it has {names}"
            raise Invalid([Problem(f"pods[{index}].slice", message)])
        pods[slice_config.pool] += (
            Pod(
                name=entry.name,
                address=entry.address,
                port=entry.port or config.engine_port,
                pool=slice_config.pool,
                revision=slice_config.revision,
                slice_name=slice_config.name,
                terminating=entry.terminating,
            ),
        )
    return Endpoints(pods, file.gates)
