"""Sites as keys."""

import pickle
import subprocess
import sys

from gradwatch import Kind, Site


def test_a_site_that_was_a_key_is_one_in_another_process() -> None:
    site = Site(Kind.GRADIENT, "dense/kernel")
    assert {site: 1}[Site(Kind.GRADIENT, "dense/kernel")] == 1
    program = (
        "import pickle, sys; from gradwatch import Kind, Site; "
        "site = pickle.load(sys.stdin.buffer); "
        "print({Site(Kind.GRADIENT, 'dense/kernel'): 'found'}.get(site), site.layer)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], input=pickle.dumps(site), capture_output=True, check=True
    )
    assert done.stdout.decode().split() == ["found", "dense"]
