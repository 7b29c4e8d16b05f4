"""Merging `run.json` and `findings.jsonl` with those that are at the URL already.

A run that is resumed on another machine begins there with an empty directory, and must
not replace what the remote files say of its beginning.
"""

from pathlib import Path

from gradwatch.store.description import FIRST_KEPT, LAST_KEPT
from gradwatch.store.description_types import fitting
from gradwatch.util.files import DamagedError, checked_json


def descriptions(before: bytes, data: bytes) -> bytes:
    """A `run.json` that also has the fits and sites of an earlier one."""
    place = Path("run.json")
    try:
        old = fitting(checked_json.loads(before, place))[0]
        new = fitting(checked_json.loads(data, place))[0]
    except DamagedError:
        return data
    known = new.get("fits", [])
    earlier = [fit for fit in old.get("fits", []) if fit not in known]
    if len(earlier) == len(old.get("fits", [])):
        # Not a continuation of it on the same machine, which knows them all.
        new["fit_count"] = old.get("fit_count", len(earlier)) + new.get("fit_count", len(known))
        fits = [*earlier, *known]
        new["fits"] = fits[:FIRST_KEPT] + fits[FIRST_KEPT:][-LAST_KEPT:]
    if "sites" in old:
        sites = new.get("sites", [])
        met = {(site.get("kind"), site.get("path")) for site in sites}
        missing = [s for s in old["sites"] if (s.get("kind"), s.get("path")) not in met]
        new["sites"] = [*sites, *missing]
    return checked_json.dumps(new)


def lines(before: bytes, data: bytes) -> bytes:
    r"""The lines of an earlier file that a later one has not, then the later one."""
    known = set(data.splitlines())
    earlier = [line for line in before.splitlines() if line not in known]
    return b"".join(line + b"\n" for line in earlier) + data
