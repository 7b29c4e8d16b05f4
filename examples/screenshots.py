"""Draw the images of the README from the run of the demo: the overview, a site, the report.

    make screenshots

Needs Chromium (apt-get install chromium).
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

RUN = Path("runs/demo")
IMAGES = Path(__file__).parents[1] / "docs" / "images"
SITE = "digits/conv1/kernel"
SIZES = {"overview": (1180, 860), "site": (1180, 1215), "report": (1180, 900)}
LARGEST = 300_000


def save(page, name):
    """Save the page as a PNG, with 256 colours if it is too large otherwise."""
    file = IMAGES / f"{name}.png"
    page.mouse.move(0, 0)
    page.wait_for_timeout(1000)
    page.screenshot(path=file)
    with Image.open(file) as picture:
        colours = picture.convert("RGB")
    colours.save(file, optimize=True)
    if file.stat().st_size > LARGEST:
        colours.quantize(256, dither=Image.Dither.NONE).save(file, optimize=True)
    size = file.stat().st_size
    print(f"{file}: {size / 1e3:.0f} kB")
    if size > LARGEST:
        raise SystemExit(f"{file} is larger than {LARGEST / 1e3:.0f} kB.")


def main():
    if not RUN.exists():
        raise SystemExit(f"There is no run {RUN}. Record it first with make demo.")
    command = [Path(sys.executable).parent / "gradwatch", "view", "runs", "--port", "0"]
    server = subprocess.Popen([*command, "--no-browser"], stdout=subprocess.PIPE, text=True)
    try:
        address = next(found[0] for line in server.stdout if (found := re.search(r"http\S+", line)))
        with sync_playwright() as playwright:
            path = shutil.which("chromium") or shutil.which("google-chrome")
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])

            def opened(name):
                width, height = SIZES[name]
                page = context.new_page()
                page.set_viewport_size({"width": width, "height": height})
                return page

            context = browser.new_context(color_scheme="light", device_scale_factor=2)
            page = opened("overview")
            page.goto(address)
            runs = page.evaluate("fetch('/api/runs').then((answer) => answer.json())")["runs"]
            (run,) = (each["id"] for each in runs if each["name"] == RUN.name)
            home = page.url.partition("#")[0]
            page.goto(f"{home}#/run/{run}")
            page.wait_for_selector(".heat-plot canvas")
            # The rules have looked at the run.
            page.get_by_text("still checking").wait_for(state="hidden")
            save(page, "overview")
            page = opened("site")
            page.goto(f"{home}#/run/{run}/site?kind=gradient&path={SITE}")
            page.wait_for_selector("canvas")
            save(page, "site")
            page = opened("report")
            page.goto(Path("report.html").absolute().as_uri())
            page.wait_for_selector(".heat-plot canvas")
            save(page, "report")
            browser.close()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
