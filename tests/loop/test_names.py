"""Names of variables, whatever they come in."""

import numpy as np
import pytest
import tensorflow as tf
import torch

from gradwatch.capture.trees import leaves
from gradwatch.capture.variable_names import unique, variables_of


def names(given, **options):
    return [each.path for each in variables_of(given, **options).named]


def test_repeated_names_are_numbered_at_the_layer():
    given = ["net/dense/kernel", "net/dense/bias", "net/dense/kernel", "net/dense/bias"]
    assert unique(given) == [*given[:2], "net/dense#2/kernel", "net/dense#2/bias"]


def test_a_number_that_is_taken_is_passed_over():
    assert unique(["w#2", "w", "w"]) == ["w#2", "w", "w#3"]


def test_brackets_which_mark_slices_are_replaced():
    assert unique(["w[0]"]) == ["w(0)"]


def test_dicts_keep_their_own_order():
    assert names({"z": np.ones(1), "a": np.ones(1)}) == ["z", "a"]


def test_lists_of_unnamed_tensors_are_numbered():
    assert names([np.ones(1), [np.ones(1), np.ones(1)]]) == ["0", "1/0", "1/1"]


def test_keys_of_a_dict_come_before_a_variables_own_name():
    assert names({"scale": tf.Variable(1.0, name="v")}) == ["scale"]
    assert names([tf.Variable(1.0, name="v")]) == ["v"]


def test_a_torch_module_has_slashes_for_dots_and_knows_its_owners():
    module = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Sequential(torch.nn.Linear(1, 1)))
    found = variables_of(module)
    assert [n.path for n in found.named] == ["0/weight", "0/bias", "1/0/weight", "1/0/bias"]
    assert found.named[2].owners == (module, module[1], module[1][0])
    assert names(dict(module.named_parameters())) == names(module)


def test_a_wrapped_torch_module_has_its_own_names():
    module = torch.nn.Linear(1, 1)
    assert names(torch.compile(module, backend="eager")) == ["weight", "bias"]
    assert names(torch.nn.DataParallel(module)) == ["weight", "bias"]


def test_layers_are_numbered_from_both_ends():
    found = variables_of({"a": {"w": np.ones(1), "b": np.ones(1)}, "c": {"w": np.ones(1)}})
    assert [n.layer_indices for n in found.named] == [(0, -2), (0, -2), (1, -1)]


def test_names_of_a_model_cannot_be_replaced():
    with pytest.raises(ValueError, match="has its own"):
        variables_of(torch.nn.Linear(1, 1), names=["a", "b"])


def test_leaves_remember_whether_a_key_led_to_them():
    found = leaves([1.0, {"k": (2.0, None)}])
    assert [(leaf.keys, leaf.is_named) for leaf in found] == [
        (("0",), False),
        (("1", "k", "0"), True),
        (("1", "k", "1"), True),
    ]
