"""Events are understood as TensorBoard's own messages mean them."""

import math

import numpy as np
import pytest

from gradwatch.integrations.tensorboard_import.events import EventError, EventParser

event_pb2 = pytest.importorskip("tensorboard.compat.proto.event_pb2")
from tensorboard.compat.proto import summary_pb2  # noqa: E402
from tensorboard.compat.proto.tensor_pb2 import TensorProto  # noqa: E402
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto  # noqa: E402
from tensorboard.compat.proto.types_pb2 import (  # noqa: E402
    DT_BFLOAT16,
    DT_BOOL,
    DT_DOUBLE,
    DT_FLOAT,
    DT_HALF,
    DT_INT32,
    DT_INT64,
    DT_STRING,
)
from tensorboard.plugins.histogram.summary_v2 import histogram_pb  # noqa: E402
from tensorboard.plugins.scalar.summary_v2 import scalar_pb  # noqa: E402


def event(*values, step=7, time=12.5):
    message = event_pb2.Event(step=step, wall_time=time)
    message.summary.value.extend(values)
    return message.SerializeToString()


def test_a_simple_value_is_the_float32_that_was_written():
    value = summary_pb2.Summary.Value(tag="loss", simple_value=0.1)
    read = EventParser().parse(event(value))
    assert (read.step, read.time) == (7, 12.5)
    assert read.numbers == {"loss": float(np.float32(0.1))}


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, -0.0, 1e-45])
def test_a_number_need_not_be_finite(number):
    value = summary_pb2.Summary.Value(tag="a", simple_value=number)
    np.testing.assert_equal(
        EventParser().parse(event(value)).numbers["a"], float(np.float32(number))
    )


def test_a_scalar_of_tensorflow_2_is_a_tensor():
    (value,) = scalar_pb("loss", 0.3).value
    assert EventParser().parse(event(value)).numbers == {"loss": float(np.float32(0.3))}


def tensor(dtype, shape=(), **values):
    dims = [TensorShapeProto.Dim(size=size) for size in shape]
    return TensorProto(dtype=dtype, tensor_shape=TensorShapeProto(dim=dims), **values)


@pytest.mark.parametrize(
    ("proto", "expected"),
    [
        (tensor(DT_FLOAT, float_val=[0.5]), 0.5),
        (tensor(DT_DOUBLE, double_val=[0.1]), 0.1),
        (tensor(DT_DOUBLE, tensor_content=np.float64(0.1).tobytes()), 0.1),
        (tensor(DT_INT32, int_val=[-3]), -3.0),
        (tensor(DT_INT64, int64_val=[-(1 << 40)]), -float(1 << 40)),
        (tensor(DT_INT64, (1,), tensor_content=np.int64(-5).tobytes()), -5.0),
        (tensor(DT_BOOL, bool_val=[True]), 1.0),
        (tensor(DT_HALF, half_val=[int(np.float16(1.5).view(np.uint16))]), 1.5),
    ],
)
def test_tensors_of_all_types_are_read(proto, expected):
    value = summary_pb2.Summary.Value(tag="a", tensor=proto)
    assert EventParser().parse(event(value)).numbers == {"a": expected}


def test_a_tensor_that_tensorboard_cannot_read_is_named():
    value = summary_pb2.Summary.Value(tag="a", tensor=tensor(DT_BFLOAT16, half_val=[0x3FC0]))
    read = EventParser().parse(event(value))
    assert (read.numbers, read.other) == ({}, ("tensor",))


@pytest.mark.parametrize("shape", [(), (1 << 20, 1 << 20)])
def test_a_tensor_whose_values_do_not_fit_its_shape_is_left_out_and_named(shape):
    value = summary_pb2.Summary.Value(tag="a", tensor=tensor(DT_FLOAT, shape))
    read = EventParser().parse(event(value))
    assert (read.numbers, len(read.problems)) == ({}, 1)


def test_negative_steps_are_negative():
    value = summary_pb2.Summary.Value(tag="a", simple_value=1.0)
    assert EventParser().parse(event(value, step=-4)).step == -4


def test_of_a_histogram_with_moments_the_moments_are_kept():
    data = np.random.default_rng(0).normal(size=1000)
    counts, edges = np.histogram(data, 30)
    histo = summary_pb2.HistogramProto(
        min=data.min(),
        max=data.max(),
        num=data.size,
        sum=data.sum(),
        sum_squares=(data**2).sum(),
        bucket_limit=edges[1:],
        bucket=counts,
    )
    read = EventParser().parse(event(summary_pb2.Summary.Value(tag="w", histo=histo))).numbers
    expected = {
        "count": 1000.0,
        "min": data.min(),
        "max": data.max(),
        "mean": data.mean(),
        "std": data.std(),
        "l2": np.linalg.norm(data),
    }
    assert read == pytest.approx({f"w/histogram/{k}": v for k, v in expected.items()}, rel=1e-9)


def test_of_a_histogram_of_tensorflow_2_only_what_is_exact_is_kept():
    data = np.random.default_rng(0).normal(size=1000)
    (value,) = histogram_pb("w/histogram", data).value
    parser = EventParser()
    assert parser.parse(event(value)).numbers == {
        "w/histogram/count": 1000.0,
        "w/histogram/min": data.min(),
        "w/histogram/max": data.max(),
    }
    (later,) = histogram_pb("w/histogram", data * 2).value
    later.ClearField("metadata")  # which only the first has
    assert parser.parse(event(later)).numbers["w/histogram/max"] == data.max() * 2


def test_of_a_histogram_with_one_bucket_only_the_count_is_known():
    buckets = tensor(DT_DOUBLE, (1, 3), double_val=[2.5, 3.5, 8])
    (value,) = histogram_pb("w", np.ones(3)).value
    value.tensor.CopyFrom(buckets)
    assert EventParser().parse(event(value)).numbers == {"w/histogram/count": 8.0}


def test_texts_images_and_larger_tensors_are_named_and_not_taken_for_numbers():
    text = summary_pb2.Summary.Value(tag="t", tensor=tensor(DT_STRING, string_val=[b"hi"]))
    image = summary_pb2.Summary.Value(tag="i", image=summary_pb2.Summary.Image(height=1))
    large = summary_pb2.Summary.Value(tag="l", tensor=tensor(DT_FLOAT, (2,), float_val=[1, 2]))
    read = EventParser().parse(event(text, image, large))
    assert read.numbers == {}
    assert read.other == ("tensor", "image", "tensor")


def test_the_value_of_a_plugin_of_another_tool_is_not_taken_for_a_scalar():
    (value,) = scalar_pb("pr", 1.0).value
    value.metadata.plugin_data.plugin_name = "hparams"
    assert EventParser().parse(event(value)).numbers == {}


def test_a_restart_of_training_is_noticed():
    message = event_pb2.Event(step=30, session_log=event_pb2.SessionLog(status=1))
    assert EventParser().parse(message.SerializeToString()).is_start


@pytest.mark.parametrize("size", range(1, 40))
def test_half_an_event_is_an_error_and_nothing_else(size):
    data = event(summary_pb2.Summary.Value(tag="loss", simple_value=0.5), time=3.0)
    try:
        read = EventParser().parse(data[:size])
    except EventError:
        return
    assert read.numbers in ({}, {"loss": 0.5})


@pytest.mark.parametrize("junk", [b"\xff" * 20, b"\x0b", b"\x0a\x7fab", b"\x80", b"\x08"])
def test_bytes_that_are_no_message_are_an_error(junk):
    with pytest.raises(EventError):
        EventParser().parse(junk)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (tensor(DT_FLOAT, (1,) * 70, float_val=[0.5]), "70 dimensions"),
        (tensor(DT_FLOAT, (1,) * 100_000, float_val=[0.5]), "100,000 dimensions"),
        (tensor(DT_FLOAT, (-1, -1), float_val=[0.5]), "shape"),
        (tensor(DT_FLOAT, (1 << 40, 1 << 40), float_val=[0.5]), "shape"),
    ],
)
def test_a_tensor_that_cannot_be_is_left_out_and_named(value, problem):
    bad = summary_pb2.Summary.Value(tag="a", tensor=value)
    good = summary_pb2.Summary.Value(tag="b", simple_value=0.5)
    read = EventParser().parse(event(bad, good))
    assert read.numbers == {"b": 0.5}
    assert problem in read.problems[0]


@pytest.mark.parametrize("proto", [tensor(999), tensor(0, float_val=[0.5])])
def test_a_tensor_of_an_unknown_type_is_named(proto):
    value = summary_pb2.Summary.Value(tag="a", tensor=proto)
    assert EventParser().parse(event(value)).other == ("tensor",)


def test_a_large_tensor_that_is_no_number_takes_no_memory():
    value = summary_pb2.Summary.Value(tag="a", tensor=tensor(DT_FLOAT, (1 << 24,), float_val=[1.0]))
    assert EventParser().parse(event(value)).other == ("tensor",)


def test_a_tag_that_is_a_text_by_itself_is_left_out_and_named():
    values = [summary_pb2.Summary.Value(tag=t, simple_value=1.0) for t in ("x" * (1 << 20), "y")]
    read = EventParser().parse(event(*values))
    assert (read.numbers, read.problems) == ({"y": 1.0}, ("a tag of 1,048,576 characters",))


@pytest.mark.parametrize("time", [math.inf, -math.inf, math.nan, 1e300])
def test_an_event_at_a_time_that_cannot_be_is_no_event(time):
    value = summary_pb2.Summary.Value(tag="a", simple_value=1.0)
    with pytest.raises(EventError, match="its time is"):
        EventParser().parse(event(value, time=time))


@pytest.mark.parametrize("step", [(1 << 63) - 1, -(1 << 63)])
def test_an_event_at_a_step_that_no_reader_can_show_is_no_event(step):
    value = summary_pb2.Summary.Value(tag="a", simple_value=1.0)
    with pytest.raises(EventError, match="its step"):
        EventParser().parse(event(value, step=step))
