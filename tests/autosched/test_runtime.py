"""What the runtime refuses, as far as that needs no GPU."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from autosched.runtime import _check_apart, split_outputs
from search_spaces.matmul import Matmul


def view(start: int, size: int) -> SimpleNamespace:
    return SimpleNamespace(data=SimpleNamespace(ptr=start), nbytes=size)


def test_an_output_that_overlaps_an_input_is_refused() -> None:
    _check_apart({"a": view(0, 64), "b": view(128, 64), "out": view(64, 64)}, "out")
    with pytest.raises(ValueError, match="out overlaps b in memory"):
        _check_apart({"a": view(0, 64), "b": view(120, 64), "out": view(64, 64)}, "out")


def test_several_outputs_are_given_as_a_tuple_of_them() -> None:
    outputs = [o for o in Matmul(4, 4, 4, reduction="row_sum").operands() if o.role == "output"]
    assert split_outputs(outputs[:1], "c") == ("c",)
    assert split_outputs(outputs, ["c", "r"]) == ("c", "r")
    for wrong in ("cr", ("c",), None):
        with pytest.raises(ValueError, match="a tuple of 2 arrays: out, reduced"):
            split_outputs(outputs, wrong)
