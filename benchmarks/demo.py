"""`make demo` on a fresh machine: seconds, also of the CPU, and bytes on disk, for revisions.

    python benchmarks/demo.py BEFORE AFTER [--pip] [--output benchmarks/results/demo-cpu.md]

Each revision is cloned into an empty directory and run without the caches of pip, uv and npm. Needs
git, make, Python and Node.js. With --pip, uv is hidden.
"""

import argparse
import os
import platform
import re
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


def megabytes(folder):
    """What the files of a folder take on disk; 0 if it is not there."""
    if not folder.exists():
        return 0.0
    files = [file for file in folder.rglob("*") if file.is_file() and not file.is_symlink()]
    return sum(file.stat().st_blocks * 512 for file in files) / 1e6


def processor_seconds():
    """What all processes that this one has waited for have computed."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(revision, without_uv):
    """Seconds until ready and of the demo itself, and megabytes, of one revision."""
    with tempfile.TemporaryDirectory(prefix="demo-") as temporary:
        clone, caches = Path(temporary, "clone"), Path(temporary, "caches")
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        subprocess.run(["git", "checkout", "--quiet", revision], cwd=clone, check=True)
        paths = os.environ["PATH"].split(os.pathsep)
        if without_uv:
            paths = [path for path in paths if not Path(path, "uv").exists()]
        environment = os.environ | {
            "PATH": os.pathsep.join(paths),
            "PIP_NO_CACHE_DIR": "1",
            "UV_NO_CACHE": "1",
            "npm_config_cache": str(caches),
            "PYTHONDONTWRITEBYTECODE": "",
        }
        seconds, computed = [], []
        # The second time, everything is installed: what is left is the demo itself.
        for _ in range(2):
            start, before = time.perf_counter(), processor_seconds()
            subprocess.run(
                ["make", "demo"], cwd=clone, env=environment, check=True, stdout=subprocess.DEVNULL
            )
            seconds.append(time.perf_counter() - start)
            computed.append(processor_seconds() - before)
        python = sum(map(megabytes, clone.glob(".venv*")))
        return {
            "set-up, s": seconds[0] - seconds[1],
            "demo, s": seconds[1],
            "first `make demo`, s": seconds[0],
            "its CPU time, s": computed[0],
            "virtual environment, MB": python,
            "node_modules, MB": (node := megabytes(clone / "viewer" / "node_modules")),
            "installed, MB": python + node,
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--pip", action="store_true")
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args()
    tool = "uv" if shutil.which("uv") and not chosen.pip else "pip"
    columns = [(chosen.before, chosen.pip), (chosen.after, True)]
    if tool == "uv":
        columns.append((chosen.after, False))
    results = [measured(*column) for column in columns]
    shown = ["before, pip", "after, pip", "after, uv"][: len(results)]
    lines = [
        "# `make demo` on a fresh machine",
        "",
        f"`python benchmarks/demo.py {chosen.before} {chosen.after}`: fresh clones, no caches of",
        f"pip, uv or npm; Python {platform.python_version()}, {os.cpu_count()} cores.",
        "",
        f"| | {' | '.join(shown)} |",
        f"|---|{'---|' * len(shown)}",
    ]
    for name in results[0]:
        values = [f"{result[name]:,.0f}" for result in results]
        lines.append(f"| {name} | {' | '.join(values)} |")
    first = results[0]
    for name in ("first `make demo`, s", "its CPU time, s", "installed, MB"):
        shares = [f"{result[name] / first[name]:.2f}" for result in results]
        share = re.sub(r", \w+$", "", name)
        lines.append(f"| {share}, of before | {' | '.join(shares)} |")
    text = "\n".join(lines) + "\n"
    print(text)
    if chosen.output:
        chosen.output.write_text(text)


if __name__ == "__main__":
    main()
