"""Users' text is data: it reaches a manifest through `tojson` and in no other way."""

import re
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
TEMPLATES = sorted((TOP / "templates").glob("*.yaml.j2"))
PAGES = sorted((TOP / "templates").glob("*.html.j2"))
EXPRESSION = re.compile(r"\{\{-?(.*?)-?\}\}", re.DOTALL)
STATEMENT = re.compile(r"\{%-?\s*(.*?)\s*-?%\}", re.DOTALL)
SAFE = re.compile(r"\s*[\w.]+\s*\|\s*tojson\s*")
PRESENCE = re.compile(r"if \w+( is (not )?none)?|endif|else|for \w+ in \w+|endfor")


def unsafe(template: str) -> list[str]:
    """Return what a template does beyond writing a value as JSON and asking whether it is there."""
    written = [e for e in EXPRESSION.findall(template) if not SAFE.fullmatch(e)]
    decided = [s for s in STATEMENT.findall(template) if not PRESENCE.fullmatch(s)]
    return written + decided


@pytest.mark.parametrize("template", TEMPLATES, ids=lambda path: path.name)
def test_every_value_is_written_as_json_and_nothing_is_computed(template):
    assert unsafe(template.read_text(encoding="utf-8")) == []


def test_there_are_templates_and_nothing_else():
    assert TEMPLATES
    assert sorted((TOP / "templates").iterdir()) == sorted(TEMPLATES + PAGES)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_a_page_escapes_every_value_and_loads_nothing(page):
    """Pages are filled with autoescape on; nothing in them may switch it off or reach outside."""
    text = page.read_text(encoding="utf-8")

    assert not re.search(r"\|\s*safe\b|\bautoescape\b|Markup", text)
    assert not re.search(r"https?:|src=|href=|@import|url\(|<script", text)


@pytest.mark.parametrize(
    "template",
    [
        "name: {{ name }}",
        'name: "{{ name | tojson }}-{{ suffix }}"',
        "replicas: {{ (count + 1) | tojson }}",
        "name: {{ name | tojson | safe }}",
        "{% if replicas > 1 %}{% endif %}",
        "{% set a = b %}",
        "{% include other %}",
    ],
)
def test_what_would_let_text_become_structure_is_found(template):
    assert unsafe(template) != []
