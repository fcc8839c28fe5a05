"""What the site does with the pages beyond MkDocs: folders in the navigation, links to the code.

Pages are written for whoever reads them in a checkout, where a link may lead to any file of it. The
site has a copy of each file outside of `docs/` that is linked, under `source/`. Alerts link to
runbooks by the names of their files, so these lead to the pages.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_LINK = re.compile(r"(?<=\]\()(?:\.\./)+[^)#\s]+")
_SOURCE = "source"
_RUNBOOKS = "runbooks"
_LEAD = (
    '<!doctype html><title>{name}</title><meta http-equiv="refresh" content="0; url=../{name}/">'
    '<a href="../{name}/">{name}</a>\n'
)
_AS_TEXT = {".py", ".yml", ".yaml"}
"""Suffixes of files that a browser would save, and not show, under their own names."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the pages of a folder into the navigation where an entry names the folder."""
    config.nav = [_expanded(entry, Path(config.docs_dir)) for entry in config.nav or []]
    return config


def _expanded(entry: object, docs: Path) -> object:
    if not isinstance(entry, dict):
        return entry
    ((title, what),) = entry.items()
    if not (isinstance(what, str) and what.endswith("/")):
        return entry
    return {title: [f"{what}{page.name}" for page in sorted((docs / what).glob("*.md"))]}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the files of the checkout that pages link to."""
    docs = Path(config.docs_dir)
    for page in list(files.documentation_pages()):
        for link in _LINK.findall(page.content_string):
            linked = _outside(page.src_uri, link)
            if linked is None or files.get_file_from_path(_copy_of(linked)):
                continue
            path = docs.parent / linked
            if path.is_file():  # else the link stays as it is, and fails the build
                files.append(File.generated(config, _copy_of(linked), content=path.read_bytes()))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Have links to files of the checkout lead to the site's copies."""
    here = page.file.src_uri

    def led(link: re.Match[str]) -> str:
        linked = _outside(here, link[0])
        if linked is None or not files.get_file_from_path(_copy_of(linked)):
            return link[0]
        return posixpath.relpath(_copy_of(linked), posixpath.dirname(here))

    return _LINK.sub(led, markdown)


def on_post_build(*, config: MkDocsConfig) -> None:
    """Have the name of a runbook's file lead to its page: it is what alerts link to."""
    for page in sorted((Path(config.docs_dir) / _RUNBOOKS).glob("*.md")):
        folder = Path(config.site_dir) / _RUNBOOKS / page.name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "index.html").write_text(_LEAD.format(name=page.stem), encoding="utf-8")


def _outside(page: str, link: str) -> str | None:
    """Return the path in the checkout that a page links to; None where that is in `docs/`."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), link))
    return None if path.startswith("docs/") else path


def _copy_of(path: str) -> str:
    suffix = ".txt" if posixpath.splitext(path)[1] in _AS_TEXT else ""
    return f"{_SOURCE}/{path}{suffix}"
