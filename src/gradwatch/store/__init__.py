"""The run's durable, compact, queryable home; README.md in this folder tells how."""

from gradwatch.store.description import Description
from gradwatch.store.file_names import SEGMENTS, SegmentName, parse_journal, parse_manifest
from gradwatch.store.journal import FORMAT, Damage, Journal
from gradwatch.store.remote import Remote, segment_files
from gradwatch.store.tables import NO_MICRO_BATCH, SCHEMAS
from gradwatch.store.writer import StoreWriter
from gradwatch.store.writers import writer_for

__all__ = [
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
    "parse_journal",
    "parse_manifest",
    "segment_files",
    "writer_for",
]
