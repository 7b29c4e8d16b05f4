"""Pictures as files, under whatever name a layer has."""

import numpy as np
import pytest

import gradwatch
from gradwatch import Kind, Site
from gradwatch.sinks import RunInfo
from gradwatch.sinks.png_files import file_name

HOSTILE = [
    "../../etc/passwd",
    "/absolute/kernel",
    "..",
    "",
    "a\0b",
    "CON",
    "x" * 4096,
    "net/Dense",
    "net/dense",
    "net.dense",
    "日本語/kernel",
    "a\nb",
    "\udc80",
]


@pytest.mark.parametrize("path", HOSTILE)
def test_a_hostile_name_stays_within_the_run(path, tmp_path, make_reading):
    site = Site(Kind.WEIGHT, path)
    drawn = np.zeros((2, 2, 3), np.uint8)
    reading = make_reading(7, {site: [1.0]})
    reading = type(reading)(**{**vars(reading), "pictures": {site: drawn}})
    sink = gradwatch.PNG()
    sink.open(RunInfo(tmp_path / "run"))
    sink.write(reading)
    files = [p for p in tmp_path.rglob("*") if p.is_file()]
    (file,) = files
    assert file.name == "00000007.png"
    assert file.parents[2] == tmp_path / "run" / "pictures"


def test_different_names_have_different_folders_whatever_their_case():
    names = [file_name(Site(Kind.WEIGHT, path)).lower() for path in HOSTILE]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("folder", ["", "..", "a/b", "/tmp"])
def test_a_folder_outside_the_run_is_refused(folder):
    with pytest.raises(ValueError, match="plain name"):
        gradwatch.PNG(folder)
