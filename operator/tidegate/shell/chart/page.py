"""docs/reference/chart.md: the table of values."""

import html

from tidegate.shell.chart.fields import ValueField, all_fields
from tidegate.shell.chart.values_file import spelled

_HEAD = (
    "<!-- Generated from operator/tidegate/shell/chart by scripts/generate; do not edit. -->\n\n"
    "# Values of the chart\n\n"
    "Helm refuses a value that is not in the table (`values.schema.json`). How to install, upgrade "
    "and remove: [the guide](../guides/install.md).\n\n"
    "| Value | Default | Meaning |\n| --- | --- | --- |\n"
)


def text() -> str:
    """Return the page."""
    return _HEAD + "".join(map(_row, all_fields()))


def _row(field: ValueField) -> str:
    default = "" if field.is_object else f"`{spelled(field.default)}`"
    meaning = html.escape(field.meaning, quote=False)
    if field.entries:
        listed = "".join(f"<br>`{name}`: {about}" for name, about in field.entries)
        meaning += f" Each:{listed}" if isinstance(field.default, list) else listed
    return f"| `{field.name}` | {default} | {meaning} |\n".replace("\\", "\\\\")
