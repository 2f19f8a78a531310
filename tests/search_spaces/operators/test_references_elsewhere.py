"""References and tolerances are computed with the library of the input arrays, and on their device.

Like cupy, the fake library supports numpy's functions and operators, and refuses to mix its arrays with numpy's.
"""

import numpy as np
import pytest

from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, Softmax
from search_spaces.operators.transpose import Transpose


class Elsewhere(np.lib.mixins.NDArrayOperatorsMixin):
    def __init__(self, array):
        self.array = np.asarray(array)

    def __getattr__(self, name):
        attribute = getattr(self.array, name)
        return called(attribute) if callable(attribute) else wrapped(attribute)

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        if "out" in options:
            options["out"] = tuple(x.array for x in options["out"])
        return called(getattr(ufunc, method))(*inputs, **options)

    def __array_function__(self, function, types, inputs, options):
        assert types == (Elsewhere,), types
        return called(function)(*inputs, **options)

    def __getitem__(self, key):
        return wrapped(self.array[key.array if isinstance(key, Elsewhere) else key])

    def __array__(self, *_, **__):
        raise TypeError("implicit conversion to a numpy array")


def wrapped(value):
    return Elsewhere(value) if isinstance(value, np.ndarray) else value


def called(function):
    def call(*inputs, **options):
        if any(isinstance(x, np.ndarray) for x in inputs):
            raise TypeError("a numpy array among another library's")
        return wrapped(function(*(x.array if isinstance(x, Elsewhere) else x for x in inputs), **options))

    return call


PROBLEMS = [
    Matmul(5, 6, 7, a="f16", out="f32"),
    Matmul(5, 6, 7, batch=2, a="bf16", b="bf16", out="bf16", order_a="col", order_b="col"),
    Matmul(5, 6, 7, a="f32", b="f32", out="f32", epilogue="bias+relu"),
    Matmul(5, 6, 7, a="e4m3", scale="row_column"),
    Matmul(5, 6, 7, a="e5m2", scale="block"),
    Matmul(5, 6, 7, a="i8"),
    Matmul(5, 6, 7, epilogue="silu", reduction="row_max"),
    Matmul(5, 6, 7, reduction="column_sum"),
    Matvec(m=2, n=5, k=8),
    *(Reduce(6, 10, kind=kind) for kind in ("sum", "mean", "sumsq", "max")),
    Reduce(6, 10, kind="argmax", out="u32"),
    Reduce(6, 10, axis="column", kind="max", dtype="f32", out="f16"),
    Softmax(3, 10, dtype="bf16", out="bf16"),
    RmsNorm(3, 10),
    LayerNorm(3, 10),
    Transpose(5, 6, dtype="u16"),
    Copy(5, 6),
]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.key())
def test_references_are_computed_on_the_device_of_the_inputs(problem):
    inputs = problem.random_inputs(0)
    elsewhere = {name: Elsewhere(array) for name, array in inputs.items()}
    for compute in (problem.reference, problem.tolerance):
        here, actual = compute(inputs), compute(elsewhere)
        assert set(actual) == set(here)
        for name, array in actual.items():
            assert isinstance(array, Elsewhere), f"{compute.__name__} of {name} is {type(array)}"
            np.testing.assert_array_equal(array.array, here[name])
            operand = next(o for o in problem.operands() if o.name == name)
            assert (array.dtype, array.shape) == (np.float64, operand.shape)
