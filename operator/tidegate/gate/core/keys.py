"""Which API key is whose: read from the text of a keys file, held as SHA-256 only.

The format is in docs/reference/gate-keys.md. No key, and no part of one, is kept, shown in an
error or in a `repr`.
"""

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any

import yaml
from pydantic import Field, TypeAdapter, ValidationError, model_validator

from tidegate.api import problems
from tidegate.api.wire import DNSLabel, Wire
from tidegate.errors import Invalid, Problem
from tidegate.gate.exchange import Caller

_LARGEST_FILE = 2**20
"""A Secret holds no more."""
_MOST_TENANTS = 10_000
_WHERE = "keys file"

Key = Annotated[str, Field(min_length=8, max_length=512, pattern=r"^[!-~]+$")]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class TenantConfig(Wire):
    """One tenant of a keys file: its keys, in full or hashed, and what they give."""

    key: Key | None = None
    """The key itself."""
    keys: list[Key] = Field(default_factory=list, max_length=16)
    """Several keys, to change one for another without a gap."""
    key_sha256: Digest | None = None
    """The SHA-256 of the key, in lower case hexadecimal digits."""
    keys_sha256: list[Digest] = Field(default_factory=list, max_length=16)
    """Several of those."""
    priority: Annotated[int, Field(ge=0, le=9)] | None = None
    """The tenant's class, 9 first; the default of the deployment without it."""
    tokens_in_flight: Annotated[int, Field(ge=1, le=2**40)] | None = None
    """Tokens that the tenant may have reserved at once; the deployment's limit without it."""

    @model_validator(mode="after")
    def _has_a_key(self) -> "TenantConfig":
        if not self.digests():
            raise ValueError("needs a key: write key or keySha256")
        return self

    def digests(self) -> list[bytes]:
        """Return the SHA-256 of every key."""
        plain = [*([self.key] if self.key else []), *self.keys]
        hashed = [*([self.key_sha256] if self.key_sha256 else []), *self.keys_sha256]
        return [_digest(key.encode()) for key in plain] + [bytes.fromhex(one) for one in hashed]


_FILE: TypeAdapter[dict[str, TenantConfig]] = TypeAdapter(dict[DNSLabel, TenantConfig])


class Keys:
    """Finds the tenant of a key, in a time that tells nothing of the keys: by digest."""

    def __init__(self, tenants: Mapping[str, TenantConfig] | None = None) -> None:
        self._held = {
            digest: (name, tenant.priority, tenant.tokens_in_flight)
            for name, tenant in (tenants or {}).items()
            for digest in tenant.digests()
        }

    def __len__(self) -> int:
        return len(self._held)

    def find(self, key: bytes, default_priority: int) -> Caller | None:
        """Return whose key this is; None when it is nobody's."""
        if not self._held:
            return None
        held = self._held.get(_digest(key))
        if held is None:
            return None
        tenant, priority, tokens = held
        return Caller(tenant, default_priority if priority is None else priority, tokens)


def parse(text: str) -> Keys:
    """Read a keys file.

    Raises:
        Invalid: it cannot be read; every problem names its field, and none shows a value.
    """
    document = _document(text)
    try:
        tenants = _FILE.validate_python(document)
    except ValidationError as error:
        raise Invalid(problems.problems(error, TenantConfig)) from None
    if len(tenants) > _MOST_TENANTS:
        raise Invalid([Problem(_WHERE, f"must have at most {_MOST_TENANTS} tenants")])
    _require_own_keys(tenants)
    return Keys(tenants)


def _document(text: str) -> Any:
    if len(text) > _LARGEST_FILE:
        raise Invalid([Problem(_WHERE, f"must have at most {_LARGEST_FILE} characters")])
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(text)
    try:
        root = loader.get_single_node()
        if root is None:
            return {}
        if isinstance(root, yaml.MappingNode):
            _require_unique(root)
        document = loader.construct_document(root)
        return {} if document is None else document
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        # Neither its message nor its context is shown: they quote the file.
        raise Invalid([Problem(_WHERE, f"line {line} is not YAML")]) from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise Invalid([Problem(_WHERE, "is not YAML")]) from None
    finally:
        loader.dispose()


def _require_unique(root: yaml.MappingNode) -> None:
    seen: dict[str, int] = {}
    for key, _ in root.value:
        line = key.start_mark.line + 1
        if key.value in seen:
            message = f"lines {seen[key.value]} and {line} are of one tenant; keep one"
            raise Invalid([Problem(_WHERE, message)])
        seen[key.value] = line


def _require_own_keys(tenants: Mapping[str, TenantConfig]) -> None:
    owners: dict[bytes, str] = {}
    for name, tenant in tenants.items():
        for digest in tenant.digests():
            other = owners.setdefault(digest, name)
            if other != name:
                raise Invalid([Problem(name, f"has a key of {other}; give each its own")])


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
