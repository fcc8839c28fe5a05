"""The page in a real browser: everything is inside of the picture, apart, and readable."""

import json
import re
import subprocess

import pytest
from tests.unit.cli.command import H100, L40S, run

# Reads what the browser laid out. The page itself runs no script: this goes into a copy of it.
PROBE = """
<script>
const channels = (text) => text.match(/[\\d.]+/g).map(Number);
const luminance = (rgb) => rgb.slice(0, 3)
  .map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const background = (element) => {
  for (let e = element; e; e = e.parentElement) {
    const found = channels(getComputedStyle(e).backgroundColor);
    if (found.length < 4 || found[3] > 0) return found;
  }
  return [255, 255, 255];
};
const contrast = (element) => {
  const style = getComputedStyle(element);
  const ink = luminance(channels(element instanceof SVGElement ? style.fill : style.color));
  const under = luminance(background(element));
  return (Math.max(ink, under) + 0.05) / (Math.min(ink, under) + 0.05);
};
const withText = [...document.querySelectorAll("body *")].filter((e) =>
  [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) &&
  !["SCRIPT", "STYLE", "title"].includes(e.tagName) && e.getClientRects().length);
const box = (element) => {
  const r = element.getBoundingClientRect();
  return [r.left, r.top, r.right, r.bottom];
};
const meet = (a, b) =>
  a[0] < b[2] - 1 && b[0] < a[2] - 1 && a[1] < b[3] - 3 && b[1] < a[3] - 3;
const outside = [], overlapping = [];
for (const svg of document.querySelectorAll("svg")) {
  const frame = box(svg), texts = [...svg.querySelectorAll("text")];
  for (const text of texts) {
    const b = box(text);
    if (b[0] < frame[0] - 1 || b[2] > frame[2] + 1 || b[1] < frame[1] - 1 || b[3] > frame[3] + 1)
      outside.push(text.textContent);
    for (const other of texts) {
      if (text !== other && meet(b, box(other)))
        overlapping.push(text.textContent + " / " + other.textContent);
    }
  }
}
const cut = [...document.querySelectorAll(".bar span")]
  .filter((e) => e.textContent && e.scrollWidth > e.clientWidth).map((e) => e.textContent);
const faint = withText.map((e) => [e.textContent.trim().slice(0, 40), contrast(e)])
  .filter((pair) => pair[1] < 4.5);
document.body.insertAdjacentHTML("beforeend", "<pre id=probe></pre>");
document.getElementById("probe").textContent = JSON.stringify({
  pageWidth: document.documentElement.scrollWidth, windowWidth: window.innerWidth,
  texts: withText.length, curves: document.querySelectorAll("polyline").length,
  outside, overlapping, cut, faint, dark: matchMedia("(prefers-color-scheme: dark)").matches,
});
</script>
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """Return the path of a page with every part: bars, curves, what-ifs, an exclusion."""
    path = tmp_path_factory.mktemp("page") / "plan.html"
    code, _, err = run(
        *("plan", "--serve", "vllm serve Qwen/Qwen3-32B -tp 2 --kv-cache-dtype fp8"),
        *("--gpu", H100, "--gpu", f"{L40S}=4", "--gpu", "NVIDIA-L4"),
        *("--vary", "kv-cache-dtype=auto,fp8", "--vary", "tensor-parallel-size=1,2,4"),
        *("--html", path),
    )
    assert code == 0, err
    return path


def open_in(browser, path, *options):
    """Run the browser on a page; return what it prints."""
    done = subprocess.run(
        [
            *(browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
            *(f"--user-data-dir={path.parent / 'profile'}", "--virtual-time-budget=2000"),
            *(*options, path.as_uri()),
        ],
        capture_output=True,
        text=True,
        timeout=90,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.timeout(600)  # the first use installs the browser
@pytest.mark.parametrize("width", [1100, 500])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everything_is_inside_apart_and_readable(browser, page, width, theme):
    text = page.read_text(encoding="utf-8")
    probed = page.with_name(f"{theme}-{width}.html")
    unlocked = re.sub(r"<meta http-equiv=[^>]*>", "", text)  # lets the probe run
    probed.write_text(unlocked.replace("</body>", f"{PROBE}</body>"), encoding="utf-8")
    options = [f"--window-size={width},900", *(["--force-dark-mode"] if theme == "dark" else [])]
    dom = open_in(browser, probed, "--dump-dom", *options)
    found = json.loads(dom.partition('<pre id="probe">')[2].partition("</pre>")[0])

    assert found["dark"] is (theme == "dark")
    assert found["curves"] > 0
    assert found["texts"] > 100
    assert found["pageWidth"] <= found["windowWidth"]
    assert found["outside"] == []
    assert found["overlapping"] == []
    assert found["cut"] == []
    assert found["faint"] == []


@pytest.mark.timeout(600)
def test_a_screenshot_shows_the_page_as_it_is_given_out(browser, page):
    picture = page.with_name("plan.png")
    open_in(browser, page, "--window-size=1100,2600", f"--screenshot={picture}")
    data = picture.read_bytes()

    assert data.startswith(b"\x89PNG")
    assert len(data) > 100_000  # an empty page of this size has a tenth of it
