"""A process that reads event files with the real TensorBoard, for the tests.

For each line on stdin, a directory as JSON, it answers with a pickled dict:

- `events`: every event, file by file in the order of their names, as written:
  dicts of `file`, `step`, `time`, `what`, and `values`, {tag: (value, description)}, where a
  histogram's value is a dict;
- `series`: what TensorBoard's own accumulator has after loading the directory:
  {tag: (plugin name, description, [(step, value), ...])};
- `series_of_many_files`: the same through the loader that follows many live files.
"""

import json
import pickle
import sys
import types
from pathlib import Path

# TensorBoard's own way of being told to do without TensorFlow.
sys.modules["tensorboard.compat.notf"] = types.ModuleType("tensorboard.compat.notf")

from tensorboard.backend.event_processing import event_file_loader, plugin_event_accumulator  # noqa: E402
from tensorboard.util import tensor_util  # noqa: E402

HISTOGRAM_FIELDS = ("min", "max", "num", "sum", "sum_squares")


def value_of(value):
    if value.WhichOneof("value") == "simple_value":
        return value.simple_value
    histo = value.histo
    numbers = {name: getattr(histo, name) for name in HISTOGRAM_FIELDS}
    return {**numbers, "limits": list(histo.bucket_limit), "counts": list(histo.bucket)}


def events(directory):
    for path in sorted(Path(directory).glob("*tfevents*")):
        for event in event_file_loader.LegacyEventFileLoader(str(path)).Load():
            what = event.WhichOneof("what")
            values = event.summary.value if what == "summary" else []
            assert len({value.tag for value in values}) == len(values)
            yield {
                "file": path.name,
                "step": event.step,
                "time": event.wall_time,
                "what": what,
                "version": event.file_version,
                "status": event.session_log.status,
                "values": {v.tag: (value_of(v), v.metadata.summary_description) for v in values},
            }


def series(directory, **options):
    accumulator = plugin_event_accumulator.EventAccumulator(
        directory, size_guidance={"tensors": 0}, **options
    )
    accumulator.Reload()
    found = {}
    for tag in accumulator.Tags()["tensors"]:
        metadata = accumulator.SummaryMetadata(tag)
        points = [
            (event.step, tensor_util.make_ndarray(event.tensor_proto))
            for event in accumulator.Tensors(tag)
        ]
        found[tag] = (metadata.plugin_data.plugin_name, metadata.summary_description, points)
    return found


def main():
    for line in sys.stdin:
        directory = json.loads(line)
        answer = {
            "events": list(events(directory)),
            "series": series(directory),
            "series_of_many_files": series(directory, event_file_active_filter=lambda when: True),
        }
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
