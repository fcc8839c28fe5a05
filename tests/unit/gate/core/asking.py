"""What the tests of reading share: a configuration, and short ways to ask."""

import json

from tidegate.api.gate_config import GateConfig, Limits, Tenants
from tidegate.gate.core.keys import Keys
from tidegate.gate.core.reading import Reader
from tidegate.gate.exchange import Ask, Head

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
RESPONSES = "/v1/responses"
EMBEDDINGS = "/v1/embeddings"
TOKENIZE = "/tokenize"
MODELS = "/v1/models"


def config(**fields):
    """A configuration of a deployment that serves `tiny`."""
    return GateConfig(
        namespace="chat",
        deployment="tiny",
        generation=1,
        models=["tiny", "tiny-alias"],
        max_model_len=fields.pop("max_model_len", 1024),
        gate_service="tiny",
        services={"unified": "tiny-unified"},
        limits=Limits(**fields.pop("limits", {})),
        tenants=Tenants(**fields.pop("tenants", {})),
        **fields,
    )


def reader(keys=None, **fields):
    """A reader with this configuration."""
    return Reader(config(**fields), keys or Keys())


def head(path=CHAT, headers=(), method="POST", peer="10.0.0.9"):
    """A head as the wire reads it."""
    pairs = [(name.encode(), value.encode()) for name, value in dict(headers).items()]
    return Head(method, path, "", pairs, peer)


def chat(**fields):
    """A document of a chat with one short message."""
    return {"model": "tiny", "messages": [{"role": "user", "content": "Hello"}], **fields}


def completion(**fields):
    """A document of a completion with a short prompt."""
    return {"model": "tiny", "prompt": "Hello", **fields}


def read(document, path=CHAT, of=None, headers=()):
    """Read a document, or the bytes of one."""
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    return (of or reader()).read(head(path, headers), body, "id-1")


def asked(document, path=CHAT, of=None, headers=()):
    """Read a document that is all right."""
    result = read(document, path, of, headers)
    assert isinstance(result, Ask), result
    return result
