"""The format of a run on disk, and its writer; see README.md in this folder."""

from gradwatch.store.description import Description
from gradwatch.store.description import read as read_description
from gradwatch.store.description_types import fitting
from gradwatch.store.file_names import (
    DESCRIPTION,
    SEGMENTS,
    SegmentName,
    parse_journal,
    parse_manifest,
    writers_in,
)
from gradwatch.store.journal import FORMAT, Damage, Journal
from gradwatch.store.locked_duckdb import literal, lock_down, quoted
from gradwatch.store.remote import Remote, segment_files
from gradwatch.store.tables import NO_MICRO_BATCH, SCHEMAS
from gradwatch.store.writer import StoreWriter
from gradwatch.store.writers import writer_for

__all__ = [
    "DESCRIPTION",
    "FORMAT",
    "NO_MICRO_BATCH",
    "SCHEMAS",
    "SEGMENTS",
    "Damage",
    "Description",
    "Journal",
    "Remote",
    "SegmentName",
    "StoreWriter",
    "fitting",
    "literal",
    "lock_down",
    "parse_journal",
    "parse_manifest",
    "quoted",
    "read_description",
    "segment_files",
    "writer_for",
    "writers_in",
]
