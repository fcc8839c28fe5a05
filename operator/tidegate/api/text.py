"""The forms of text: one pattern for pydantic and the API server, one sentence for people.

The patterns keep to what Rust's regex (pydantic) and Go's RE2 (the API server) read alike.
"""

from dataclasses import dataclass

_INVISIBLE = r"\p{Cc}\p{Cf}\p{Zl}\p{Zp}"
"""Control characters, invisible and bidirectional format characters, line separators."""
_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"


@dataclass(frozen=True)
class Form:
    """A pattern, and what is said of a text that does not match it."""

    pattern: str
    says: str


LINE = Form(
    rf"^[^{_INVISIBLE}]*$",
    "must be one line without control, invisible or bidirectional characters; remove them",
)
NAME = Form(
    rf"^[^-\p{{Z}}{_INVISIBLE}]([^{_INVISIBLE}]*[^\p{{Z}}{_INVISIBLE}])?$",
    "must be one line that does not start with '-', does not start or end with a space, and has "
    "no control, invisible or bidirectional characters",
)
"""Becomes an argument of its own on the engine's command line, so it may not look like a flag."""
PROSE = Form(
    r"^[\t\n\r\x{20}-\x{7E}\x{A0}-\x{2029}\x{202F}-\x{2065}\x{206A}-\x{10FFFF}]*$",
    "must not contain control characters other than tab and line break, nor characters that "
    "change the reading direction; remove them",
)
IMAGE = Form(
    r"^[A-Za-z0-9\[][-A-Za-z0-9._:/@+\[\]]*$",
    "must be an image reference such as vllm/vllm-openai:v0.32.0, without spaces",
)
VERSION = Form(
    r"^[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}$", "must be a version of three numbers such as 0.32.0"
)
DNS_LABEL = Form(
    rf"^{_LABEL}$",
    "must be lower-case letters, digits and '-', and start and end with a letter or digit",
)
SERVICE_NAME = Form(
    r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
    "must be lower-case letters, digits and '-', start with a letter and end with a letter or "
    "digit, because Services are named after it",
)
DNS_NAME = Form(
    rf"^{_LABEL}(\.{_LABEL})*$",
    "must be lower-case letters, digits, '-' and '.', and each part between dots must start and "
    "end with a letter or digit",
)
LABEL_KEY = Form(
    rf"^({_LABEL}(\.{_LABEL})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?$",
    "must be a label key such as example.com/team: an optional DNS name and '/', then at most 63 "
    "letters, digits, '-', '_' and '.'",
)
LABEL_VALUE = Form(
    rf"^({_QUALIFIED})?$",
    "must be letters, digits, '-', '_' and '.', and start and end with a letter or digit",
)
PRODUCT = Form(
    rf"^{_QUALIFIED}$",
    "must be a GPU product as the node's label nvidia.com/gpu.product spells it",
)
DATA_KEY = Form(r"^[-._a-zA-Z0-9]+$", "must be a key of letters, digits, '-', '_' and '.'")
ENV_NAME = Form(
    r"^[A-Za-z_][A-Za-z0-9_]*$",
    "must be letters, digits and '_', and not start with a digit",
)
MODEL_FOLDER = Form(
    r"^([A-Za-z0-9_-][A-Za-z0-9._-]*|\.[A-Za-z0-9_-][A-Za-z0-9._-]*)"
    r"(/([A-Za-z0-9_-][A-Za-z0-9._-]*|\.[A-Za-z0-9_-][A-Za-z0-9._-]*))*$",
    "must be a folder inside of the volume such as models/qwen3-32b: no leading '/', no '..', "
    "and only letters, digits, '.', '_' and '-' between slashes",
)
QUANTIZATION = Form(r"^[a-z0-9_-]+$", "must be a name such as fp8 or compressed-tensors")
KV_DTYPE = Form(r"^[a-z0-9_]+$", "must be a name such as auto, bf16 or fp8")
BACKEND = Form(r"^[A-Z0-9_]+$", "must be a name such as FLASH_ATTN, in capitals")
REASON = Form(r"^[A-Za-z][A-Za-z0-9_]*$", "must be one word, such as PodsReady")
DURATION = Form(
    r"^([0-9]{1,5}(\.[0-9]{1,9})?(h|m|s)|[0-9]{1,8}(\.[0-9]{1,6})?ms)+$",
    "must be a duration such as 30s, 5m or 250ms",
)
WHOLE_SECONDS = Form(
    r"^([0-9]{1,5}(h|m|s))+$", "must be a duration in whole seconds such as 30s or 5m"
)
INSTANT = Form(
    r"^2[0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?"
    r"(Z|[+-][0-9]{2}:[0-9]{2})$",
    "must be a time with its zone such as 2027-01-01T00:00:00Z",
)
PERCENTAGE = Form(r"^(0|[1-9][0-9]?|100)%$", "must be a percentage from 0% to 100%, such as 25%")
QUANTITY = Form(
    r"^\+?([0-9]{1,20}(\.[0-9]{0,20})?|\.[0-9]{1,20})([eE][+-]?[0-9]{1,2}|[KMGTPE]i|[numkMGTPE])?$",
    "must be a quantity such as 40Gi or 500m",
)
SIZE = Form(
    r"^([0-9]{1,16}([eE]\+?[0-9]{1,2}|[KMGTP]i|[kMGTP])?|"
    r"[0-9]{1,16}\.[0-9]{1,12}([KMGTP]i|[kMGTP]))$",
    "must be a size in bytes such as 40Gi, 1.5Gi or 42949672960",
)

FORMS: tuple[Form, ...] = (
    LINE,
    NAME,
    PROSE,
    IMAGE,
    VERSION,
    DNS_LABEL,
    SERVICE_NAME,
    DNS_NAME,
    LABEL_KEY,
    LABEL_VALUE,
    PRODUCT,
    DATA_KEY,
    ENV_NAME,
    MODEL_FOLDER,
    QUANTIZATION,
    KV_DTYPE,
    BACKEND,
    REASON,
    DURATION,
    WHOLE_SECONDS,
    INSTANT,
    PERCENTAGE,
    QUANTITY,
    SIZE,
)
SENTENCES: dict[str, str] = {form.pattern: form.says for form in FORMS}
"""What to say, by the pattern that a text missed."""
