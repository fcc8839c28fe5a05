"""The site in a real browser: whoever clicks or searches comes to the page that they meant."""

import pytest
import pytest_asyncio
from tests.site import tab

CLICK = """(() => {{
  const found = [...document.querySelectorAll({where})]
    .find((e) => e.textContent.trim() === {text} && e.getClientRects().length);
  if (found) found.click();
  return Boolean(found);
}})()"""
TABS, SIDEBAR = "'.md-tabs a'", "'.md-sidebar--primary a'"
HEADING = "document.querySelector('h1')?.firstChild?.textContent"
pytestmark = [
    pytest.mark.timeout(600),  # the first use installs the browser
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def chromium(browser, tmp_path_factory):
    """A tab of a browser that all tests share."""
    async with tab.opened(browser, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def page(chromium, address):
    """The tab, with the start page in it."""
    await chromium.width(1280)
    await chromium.go(f"{address}/")
    return chromium


async def click(page, where, text):
    await page.until(CLICK.format(where=where, text=repr(text)))


@pytest.mark.parametrize(
    ("of_tab", "of_sidebar", "heading"),
    [
        ("Home", "Getting started", "Getting started"),
        ("Guides", "Security model", "Security model"),
        ("Concepts", "The KV cache", "The KV cache"),
        ("Runbooks", "KVUsageHigh", "KVUsageHigh"),
        ("Reference", "Reasons", "Reasons"),
    ],
)
async def test_a_reader_clicks_from_the_start_to_a_page(page, of_tab, of_sidebar, heading):
    await click(page, TABS, of_tab)
    await click(page, SIDEBAR, of_sidebar)

    await page.until(f"{HEADING} === {heading!r}")


async def test_a_reader_searches_and_finds_the_reason(page):
    await page.run("document.querySelector('.md-search__input').focus()")
    await page.call("Input.insertText", text="BudgetTooSmall")
    first = "document.querySelector('.md-search-result__item a')"
    await page.until(f"Boolean({first})")
    await page.run(f"{first}.click()")

    await page.until("!location.pathname.endsWith('.html') && location.pathname !== '/'")
    await page.until("document.querySelector('article')?.textContent.includes('BudgetTooSmall')")


@pytest.mark.parametrize(
    "path",
    [
        *("", "getting-started/", "guides/install/", "guides/security/", "concepts/kv-cache/"),
        *("runbooks/TTFTBurn/", "reference/llmdeployment/", "reference/chart/"),
    ],
)
async def test_a_page_is_not_wider_than_a_telephone(page, address, path):
    """Tables and code scroll in their own frames."""
    await page.width(420)
    await page.go(f"{address}/{path}")

    assert await page.run("document.documentElement.scrollWidth <= innerWidth")
