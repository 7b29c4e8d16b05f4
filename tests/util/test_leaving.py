"""The end of a process while a thread is inside of what cannot be interrupted."""

import subprocess
import sys

SCRIPT = """
import sys, time
from gradwatch.util import leaving
leaving.start(lambda: time.sleep(600), "compile")
print("flushed")
{ending}
"""


def end_of(ending):
    command = [sys.executable, "-c", SCRIPT.format(ending=ending)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout


def test_the_process_ends_with_its_own_status_and_all_output():
    assert end_of("sys.exit(7)") == (7, "flushed\n")
    assert end_of("") == (0, "flushed\n")
    assert end_of("raise KeyboardInterrupt")[1] == "flushed\n"
