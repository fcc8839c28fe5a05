"""Kubernetes quantities and Go durations: read, spelled as the API server spells them, shown."""

import re
from decimal import Context, Decimal, localcontext

from tidegate.api import text

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_QUANTITY = re.compile(
    r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))([eE][+-]?[0-9]{1,2})?([A-Za-z]*)", re.ASCII
)
_SIZE = re.compile(text.SIZE.pattern, re.ASCII)
_LONGEST = 64
"""Characters of the longest quantity that is read; the API server's own numbers have 19 digits."""
_EXACT = Context(prec=2 * _LONGEST + 99)
"""Digits enough for every number that `_QUANTITY` admits, so that nothing is ever rounded."""
_DURATION = re.compile(text.DURATION.pattern, re.ASCII)
_DURATION_PART = re.compile(r"([0-9.]+)(h|ms|m|s)", re.ASCII)
_DURATION_SECONDS = {"h": Decimal(3600), "m": Decimal(60), "s": Decimal(1), "ms": Decimal("0.001")}
LONGEST_DURATION = 32
"""Characters; the same bound stands in the schema."""
MAX_BYTES = 2**50
MAX_DURATION_SECONDS = 24 * 3600
MAX_RESOURCE = 2**60
"""Largest amount of a pod's resource; the API server caps at 2^63 - 1, far above any node."""


def parse_quantity(value: str | int | float) -> Decimal:
    """Read a Kubernetes quantity (`40Gi`, `500m`, `1e3`) as an exact number of base units.

    Raises:
        ValueError: It is not a quantity; the message is a predicate of the field.
    """
    written = str(value)
    match = _QUANTITY.fullmatch(written) if len(written) <= _LONGEST else None
    if match is None:
        raise ValueError(text.QUANTITY.says)
    number, exponent, suffix = match.groups()
    if exponent and suffix:
        raise ValueError("must have an exponent or a suffix, not both; write 40Gi or 4e10")
    with localcontext(_EXACT):
        amount = Decimal(number + (exponent or ""))
        if suffix in _BINARY:
            return amount * _BINARY[suffix]
        if suffix in _DECIMAL:
            return amount.scaleb(_DECIMAL[suffix])
    raise ValueError(f"has the unknown suffix {suffix!r}; use one of Ki Mi Gi Ti, k M G T, m")


def parse_bytes(value: object) -> int:
    """Read a quantity as whole bytes, from 0 to 1Pi."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError(text.SIZE.says)
    if isinstance(value, str) and not _SIZE.fullmatch(value):
        raise ValueError(text.SIZE.says)
    number = parse_quantity(value)
    if number != number.to_integral_value():
        raise ValueError("must be a whole number of bytes, such as 40Gi")
    if not 0 <= number <= MAX_BYTES:
        raise ValueError("must be from 0 to 1Pi")
    return int(number)


def canonical_quantity(value: str | int) -> str:
    """Spell a quantity so that the API server gives it back unchanged.

    The largest suffix that leaves a whole number: a binary one where the user wrote a binary one
    and it divides, else a decimal one. Exponents become suffixes, which is the same amount.
    """
    number = parse_quantity(value)
    if number == 0:
        return "0"
    with localcontext(_EXACT):
        if str(value).endswith(tuple(_BINARY)):
            for suffix, factor in reversed(_BINARY.items()):
                if number % factor == 0:
                    return f"{int(number / factor)}{suffix}"
        for suffix, power in sorted(_DECIMAL.items(), key=lambda item: -item[1]):
            scaled = number.scaleb(-power)
            if scaled == scaled.to_integral_value():
                return f"{int(scaled)}{suffix}"
    raise ValueError("must be a multiple of 1n")


def parse_resource(value: object) -> str:
    """Read an amount of CPU, memory or storage in its canonical spelling.

    Kubernetes keeps pods' amounts in thousandths and rounds up what is finer, so finer is refused.
    """
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ValueError("must be a quantity such as 4, 500m or 16Gi")
    number = parse_quantity(value)
    if not 0 <= number <= MAX_RESOURCE:
        raise ValueError("must be from 0 to 1Ei")
    with localcontext(_EXACT):
        if number * 1000 % 1 != 0:
            raise ValueError("must be a multiple of 1m, the finest amount that Kubernetes keeps")
    return canonical_quantity(value)


def spell_bytes(count: int) -> str:
    """Spell bytes exactly: with the largest binary suffix that divides, else plain."""
    for suffix, factor in reversed(_BINARY.items()):
        if count and count % factor == 0:
            return f"{count // factor}{suffix}"
    return str(count)


def format_bytes(count: int) -> str:
    """Spell bytes for people: `49.9Gi`, with one decimal above 1 Ki, exact below."""
    for suffix, factor in reversed(_BINARY.items()):
        if abs(count) >= factor:
            return f"{count / factor:.1f}{suffix}"
    return str(count)


def parse_duration(value: object) -> float:
    """Read a Go duration (`1h30m`, `250ms`) as seconds, from 0 to 24 hours."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        raise ValueError("must be a duration with its unit, such as 30s; a number has none")
    if not isinstance(value, str) or len(value) > LONGEST_DURATION:
        raise ValueError(text.DURATION.says)
    if not _DURATION.fullmatch(value):
        raise ValueError(text.DURATION.says)
    seconds = sum(Decimal(n) * _DURATION_SECONDS[unit] for n, unit in _DURATION_PART.findall(value))
    if seconds > MAX_DURATION_SECONDS:
        raise ValueError("must be from 0s to 24h")
    return float(seconds)


def spell_duration(seconds: float) -> str:
    """Spell seconds as a Go duration that reads back as the same number."""
    return f"{Decimal(repr(seconds)).normalize():f}s"


def rounded_duration(seconds: float) -> str:
    """Spell seconds for people, in the two largest units: `2h 5m`, `12m`, `42s`."""
    left = round(seconds)
    parts: list[tuple[int, str]] = []
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, length)
        if count or parts:
            parts.append((count, unit))
    told = [f"{count}{unit}" for count, unit in parts[:2] if count]
    return " ".join(told) or "0s"
