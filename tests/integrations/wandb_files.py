"""Reads what wandb has written offline, by its protocol; the framing is LevelDB's log."""

import json
import struct
from pathlib import Path

from wandb.proto import wandb_internal_pb2

_BLOCK, _FILE_HEADER, _HEADER = 32768, 7, 7


def records(directory):
    """The records of the one offline run below a directory."""
    (file,) = Path(directory).glob("wandb/offline-run-*/run-*.wandb")
    data, at, parts = file.read_bytes(), _FILE_HEADER, []
    while at + _HEADER <= len(data):
        left = _BLOCK - at % _BLOCK
        if left < _HEADER:
            at += left
            continue
        _, length, kind = struct.unpack("<IHB", data[at : at + _HEADER])
        parts.append(data[at + _HEADER : at + _HEADER + length])
        at += _HEADER + length
        if kind in (1, 4):  # whole, or the last part
            record = wandb_internal_pb2.Record()
            record.ParseFromString(b"".join(parts))
            parts = []
            yield record


def of_kind(directory, kind):
    return [getattr(r, kind) for r in records(directory) if r.WhichOneof("record_type") == kind]


def history(directory):
    """The rows of the run, as `wandb.log` took them."""
    return [
        {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in row.item}
        for row in of_kind(directory, "history")
    ]
