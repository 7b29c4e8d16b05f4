"""A page in a real Chromium, and what `view.py` measures of it."""

import shutil
import statistics
import time
from contextlib import contextmanager
from itertools import pairwise

from playwright.sync_api import sync_playwright

# The canvas of the heatmap shows colours of values: hatches, lines and the page are grey.
LOOK_FOR_HEATMAP = """
() => {
  const canvas = document.querySelector(".heat-plot canvas");
  if (!canvas || !canvas.width || canvas.height < 30) return false;
  const row = canvas.getContext("2d").getImageData(0, 24, canvas.width, 1).data;
  let coloured = 0;
  for (let i = 0; i < row.length; i += 4) {
    const rgb = [row[i], row[i + 1], row[i + 2]];
    if (Math.max(...rgb) - Math.min(...rgb) > 40) coloured++;
  }
  return coloured > 0.5 * canvas.width;
}
"""
# A canvas of a chart of TensorBoard, which a worker draws, has a line on it.
LOOK_FOR_CHART = """
() => [...document.querySelectorAll("line-chart .series-view canvas")].some((canvas) => {
  if (!canvas.width) return false;
  const copy = document.createElement("canvas");
  copy.width = canvas.width;
  copy.height = canvas.height;
  const pen = copy.getContext("2d");
  pen.drawImage(canvas, 0, 0);
  return pen.getImageData(0, 0, copy.width, copy.height).data.some((byte) => byte > 0);
})
"""
LOOK_FOR_COUNT = "(text) => document.querySelector('.group-card-count')?.textContent === text"
WATCH = """
window.benchmark = { frames: [], long: [] };
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.benchmark.long.push(entry.duration);
}).observe({ type: "longtask", buffered: true });
"""
COUNT_FRAMES = """
() => {
  const kept = window.benchmark;
  kept.frames = [];
  kept.long = [];
  kept.on = true;
  const count = (now) => {
    kept.frames.push(now);
    if (kept.on) requestAnimationFrame(count);
  };
  requestAnimationFrame(count);
}
"""


@contextmanager
def browser():
    """A fresh Chromium with an empty cache."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        raise SystemExit("This benchmark needs Chromium: apt-get install chromium.")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


class Page:
    """One page, of which every byte is counted."""

    def __init__(self, chromium):
        self.page = chromium.new_page(viewport={"width": 1440, "height": 900})
        self.page.set_default_timeout(180_000)
        self.page.add_init_script(WATCH)
        self.received = 0
        session = self.page.context.new_cdp_session(self.page)
        session.send("Network.enable")
        session.on("Network.loadingFinished", self._count)

    def _count(self, event):
        self.received += event["encodedDataLength"]

    def open(self, address):
        """Begin to load a page."""
        self.page.goto(address, wait_until="commit")

    def when(self, condition, argument=None):
        """Milliseconds from the opening of the page until something holds."""
        self.page.wait_for_function(condition, arg=argument, polling="raf")
        return self.page.evaluate("performance.now()")

    def paints(self):
        """When the browser first painted anything, in milliseconds."""
        return self.page.evaluate(
            "performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? null"
        )

    def frames(self, act):
        """How long frames took while something was done, in milliseconds."""
        self.page.evaluate(COUNT_FRAMES)
        act(self.page)
        times, long = self.page.evaluate(
            "() => { benchmark.on = false; return [benchmark.frames, benchmark.long]; }"
        )
        deltas = sorted(b - a for a, b in pairwise(times))
        return {
            "frames": len(deltas),
            "median ms": statistics.median(deltas),
            "95 % within ms": deltas[int(0.95 * (len(deltas) - 1))],
            "longest ms": deltas[-1],
            "over 50 ms": sum(delta > 50 for delta in deltas),
            "long tasks": len(long),
            "longest task ms": max(long, default=0.0),
        }

    def under_pointer(self, places):
        """What the heatmap says at some places: path, first and last step, value."""
        box = self.page.locator(".heat-plot canvas").bounding_box()
        found = []
        for across, down in places:
            self.page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])
            self.page.wait_for_selector(".readout[data-value]:not([data-value=''])")
            read = "e => [e.dataset.path, e.dataset.first, e.dataset.last, e.dataset.value]"
            path, first, last, value = self.page.eval_on_selector(".readout", read)
            found.append((path, int(first), int(last), float(value)))
        return found


def scroll(page):
    """Wheel through the rows, fast, and back."""
    page.locator(".heat-plot canvas").hover()
    for notch in (240, -240):
        for _ in range(60):
            page.mouse.wheel(0, notch)
            time.sleep(1 / 60)


def leap(page):
    """Drag the scroll bar to places far apart, as if looking for something."""
    for share in (0.2, 0.9, 0.5, 0.05, 0.7, 0.0):
        page.eval_on_selector(".heat-scroll", f"e => {{ e.scrollTop = {share} * e.scrollHeight; }}")
        time.sleep(0.25)


def zoom(page):
    """Zoom in on a part of the time with the wheel, and out again."""
    page.locator(".heat-plot canvas").hover()
    page.keyboard.down("Control")
    for notch in (-60, 60):
        for _ in range(30):
            page.mouse.wheel(0, notch)
            time.sleep(1 / 60)
    page.keyboard.up("Control")
