"""A very large run in the browser: when the heatmap is there, what it took, how it looks."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import common
import view_page
from view import BIN, Server, run_id


class Memory:
    """The most memory that a process and its children take, looked at now and then."""

    def __init__(self, pid):
        self.pid, self.peak = pid, 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self):
        while not self._done.wait(0.2):
            found = subprocess.run(
                ["ps", "-o", "rss=", "-g", str(self.pid)], capture_output=True, text=True
            ).stdout.split()
            self.peak = max(self.peak, sum(map(int, found)) / 1024)

    def stop(self):
        """No more looking; the most so far, in MB."""
        self._done.set()
        self._thread.join()
        return self.peak


def seconds_of_work(pid):
    """What a process has worked so far, on all cores."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    root, pictures = Path(sys.argv[1]), Path(sys.argv[2])
    name = run_id(root)
    with Server(BIN / "gradwatch", "view", root, "--port", "0", "--no-browser") as server:
        memory = Memory(server._process.pid)
        address, ready = server.address(), server.age
        with view_page.browser() as chromium:
            page = view_page.Page(chromium)
            page.page.set_default_timeout(600_000)
            page.open(f"{address}#/run/{name}")
            drawn = page.when(view_page.LOOK_FOR_HEATMAP) / 1e3
            page.page.wait_for_load_state("load")
            first = page.received
            page.page.screenshot(path=pictures / "scale-run.png", full_page=True)
            cpu = seconds_of_work(server._process.pid)
            page.page.locator(".heat-plot canvas").scroll_into_view_if_needed()
            page.page.get_by_role("button", name="Open all").click()
            page.page.wait_for_timeout(3000)
            scrolling = page.frames(view_page.scroll)
            page.page.screenshot(path=pictures / "scale-open.png")
            rows = page.page.eval_on_selector(
                ".heat-scroll", "e => Math.round(e.scrollHeight / 17)"
            )
            common.answer(
                {
                    "serves pages s": ready,
                    "page to heatmap s": drawn,
                    "bytes of the first view": first,
                    "bytes in all": page.received,
                    "rows open": rows,
                    "scrolling": scrolling,
                    "server cpu s": cpu,
                    "peak MB of the server": memory.stop(),
                }
            )


if __name__ == "__main__":
    main()
