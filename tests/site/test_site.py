"""What readers of the site rely on: pages where alerts look for them, and no link to nowhere."""

import re
import shutil
import subprocess

import pytest
from tests.site.conftest import TOP

RUNBOOKS = sorted(path.stem for path in (TOP / "docs" / "runbooks").glob("*.md"))
ASSET = re.compile(
    r'<(?:script|img|iframe|link(?! rel="?canonical))\b[^>]*(?:src|href)="?(https?:[^" >]+)'
)


def built(folder):
    """Build a copy of the documentation; return what MkDocs says and how it ends."""
    return subprocess.run(
        [TOP / ".venv-docs" / "bin" / "mkdocs", "build", "--config-file", folder / ".mkdocs.yml"],
        env={"PATH": "/usr/bin:/bin", "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def small(site, tmp_path):
    """A copy of the configuration over two pages, where a test may break something."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(TOP / "scripts" / "site_hooks.py", tmp_path / "scripts")
    configuration = (TOP / ".mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[0]
    nav = "nav: [index.md, {Folder: folder/}]\n"
    (tmp_path / ".mkdocs.yml").write_text(f"{configuration}\n{nav}", encoding="utf-8")
    (tmp_path / "docs" / "folder").mkdir(parents=True)
    (tmp_path / "docs" / "index.md").write_text("# Home\n\n## Part\n")
    (tmp_path / "example.yaml").write_text("a: 1\n")
    return tmp_path


def test_each_runbook_is_where_its_alert_links_to(site):
    assert RUNBOOKS
    for name in RUNBOOKS:
        page = site / "runbooks" / name / "index.html"
        assert name in page.read_text(encoding="utf-8")
        leads = site / "runbooks" / f"{name}.md" / "index.html"  # alerts name the file
        assert f"url=../{name}/" in leads.read_text(encoding="utf-8")


def test_no_page_asks_another_server_for_anything(site):
    pages = list(site.rglob("*.html"))
    asked = {url for page in pages for url in ASSET.findall(page.read_text(encoding="utf-8"))}

    assert len(pages) > len(RUNBOOKS)
    assert asked == set()


def test_links_to_pages_parts_and_files_of_the_checkout_lead_there(small):
    page = "[a](../index.md#part), [b](../../example.yaml)"
    (small / "docs" / "folder" / "page.md").write_text(f"# Page\n\n{page}\n")
    done = built(small)

    assert done.returncode == 0, done.stderr
    html = (small / "artifacts/site/folder/page/index.html").read_text(encoding="utf-8")
    assert 'href="../../#part"' in html
    assert 'href="../../source/example.yaml.txt"' in html
    assert (small / "artifacts/site/source/example.yaml.txt").read_text() == "a: 1\n"


@pytest.mark.parametrize(
    ("link", "named"),
    [
        ("../no-such-page.md", "no-such-page.md"),
        ("../index.md#no-such-part", "#no-such-part"),
        ("#no-such-part", "#no-such-part"),
        ("../../no-such-file.yaml", "no-such-file.yaml"),
        ("/absolute.md", "/absolute.md"),
    ],
)
def test_a_link_to_nowhere_fails_the_build_and_is_named(small, link, named):
    (small / "docs" / "folder" / "page.md").write_text(f"# Page\n\n[link]({link})\n")
    done = built(small)

    assert done.returncode != 0
    assert "folder/page.md" in done.stderr
    assert named in done.stderr


def test_a_page_that_nobody_would_find_fails_the_build(small):
    (small / "docs" / "folder" / "page.md").write_text("# Page\n")
    (small / "docs" / "lost.md").write_text("# Lost\n")
    done = built(small)

    assert done.returncode != 0
    assert "lost.md" in done.stderr
