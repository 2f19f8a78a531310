"""Programs with dynamic sizes are called at any size, with the schedule of the nearest tuned size."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from autosched.dispatch.any_size import MOST_KERNELS, KernelOfAnySize
from autosched.programs.loading import problem
from search_spaces.operators.distance import problem_distance
from search_spaces.programs.builder import Builder, InOut, Input, Output, Program, Scalar, program
from search_spaces.programs.language.ir import Array


@program(dynamic="m", a=Input("m k", "f16"), v=Input("m", "f32"), b=Input("k n", "f16"), out=Output("m n", "f32"))
def scaled_product(p: Builder, a: Array, v: Array, b: Array, out: Array) -> None:
    i, j = p.blocks(out.shape, (32, 32))
    product = p.mma(p.load(p.window(a, (i, 0), (32, 64))), p.load(p.window(b, (0, j), (64, 32))))
    factor = p.load(p.window(v, (i, 0), (32, 1), column=True))
    p.store(product * factor, p.window(out, (i, j), (32, 32)))


def shapes(m: int) -> tuple[Any, ...]:
    return np.zeros((m, 64), np.float16), np.zeros(m, np.float32), np.zeros((64, 96), np.float16)


class RequestedSizes:
    """A fake database that records the sizes of the requested kernels."""

    def __init__(self) -> None:
        self.sizes: list[dict[str, int]] = []

    def __call__(self, program: Program, **sizes: int) -> Any:
        self.sizes.append(sizes)
        return lambda *arrays, out=None, **keywords: (sizes["m"], len(arrays) + len(keywords), out)


def test_the_sizes_are_read_from_the_arrays() -> None:
    requested = RequestedSizes()
    kernel = KernelOfAnySize(requested, scaled_product, {"k": 64, "n": 96})
    for m in (5, 4096, 5):
        assert kernel(*shapes(m)) == (m, 3, None)
    assert requested.sizes == [{"k": 64, "n": 96, "m": m} for m in (5, 4096)]
    a, v, b = shapes(7)
    assert kernel(a, b=b, v=v, out="there") == (7, 3, "there")
    assert kernel(a[0], v[:1], b)[0] == 1  # a first dimension of 1 may be left out


def test_the_kernels_of_the_last_sizes_are_kept() -> None:
    """The least recently used size is unloaded; a size in regular use stays loaded."""
    requested = RequestedSizes()
    kernel = KernelOfAnySize(requested, scaled_product, {"k": 64, "n": 96})
    loaded = [weakref.ref(kernel.of(*shapes(m))) for m in range(1, MOST_KERNELS + 1)]
    kernel(*shapes(1))
    kernel(*shapes(MOST_KERNELS + 1))
    gc.collect()
    assert [m for m, held in enumerate(loaded, 1) if held() is None] == [2]
    kernel(*shapes(1))
    assert len(requested.sizes) == MOST_KERNELS + 1
    kernel(*shapes(2))
    assert requested.sizes[-1]["m"] == 2 and len(requested.sizes) == MOST_KERNELS + 2


@program(dynamic="m k", a=Input("m k", "f16"), b=Input("k n", "f16"), out=Output("m n", "f32"))
def product_of_any_depth(p: Builder, a: Array, b: Array, out: Array) -> None:
    i, j = p.blocks(out.shape, (32, 32))
    acc = p.state(p.zeros((32, 32)))
    for at in p.steps(a.shape[1], 32):
        acc.set(p.mma(p.load(p.window(a, (i, at), (32, 32))), p.load(p.window(b, (at, j), (32, 32))), acc))
    p.store(acc, p.window(out, (i, j), (32, 32)))


def test_any_dimension_gives_a_size() -> None:
    requested = RequestedSizes()
    kernel = KernelOfAnySize(requested, product_of_any_depth, {"n": 96})
    assert kernel(np.zeros((7, 40), np.float16), np.zeros((40, 96), np.float16)) == (7, 2, None)
    assert requested.sizes == [{"n": 96, "m": 7, "k": 40}]
    with pytest.raises(ValueError, match="k is 41 in b, but 40 in a"):
        kernel(np.zeros((7, 40), np.float16), np.zeros((41, 96), np.float16))


def test_arrays_that_disagree_are_rejected() -> None:
    kernel = KernelOfAnySize(RequestedSizes(), scaled_product, {"k": 64, "n": 96})
    (a, _, b), (_, v, _) = shapes(7), shapes(8)
    with pytest.raises(ValueError, match="m is 8 in v, but 7 in a"):
        kernel(a, v, b)


@program(dynamic="m", x=Input("m n", "f32"), by=Scalar("f32", 2.0, high=9.0), out=Output("m n", "f32"))
def scaled(p: Builder, x: Array, by: Any, out: Array) -> None:
    (i,) = p.blocks(x.shape[:1], (8,))
    p.store(p.load(p.window(x, (i, 0), (8, 32))) * by, p.window(out, (i, 0), (8, 32)))


@program(dynamic="m", x=Input("m n", "f32"), total=Output("n", "f32"), last=InOut("m n", "f32"))
def summed(p: Builder, x: Array, total: Array, last: Array) -> None:
    (i,) = p.blocks((1,), (1,))
    p.store(p.load(p.window(x, (i, 0), (1, 32))), p.window(total, (0, 0), (1, 32)))
    p.store(p.load(p.window(x, (i, 0), (1, 32))), p.window(last, (0, 0), (1, 32)))


def test_a_size_of_zero_launches_no_kernel() -> None:
    torch, requested = pytest.importorskip("torch"), RequestedSizes()
    kernel = KernelOfAnySize(requested, scaled, {"n": 32})
    actual = kernel(torch.zeros(0, 32), by=3.0)
    assert tuple(actual.shape) == (0, 32) and actual.dtype == torch.float32 and not requested.sizes
    with pytest.raises(ValueError, match="by"):
        kernel(torch.zeros(0, 32), by=10.0)
    of_sum = KernelOfAnySize(requested, summed, {"n": 32})
    with pytest.raises(ValueError, match="total"):
        of_sum(torch.zeros(0, 32), torch.zeros(0, 32))
    out = torch.full((32,), 7.0)
    assert of_sum(torch.zeros(0, 32), torch.zeros(0, 32), out=out) is out and out.eq(7.0).all()


@program(x=Input("m n", "f32", strided=True), out=Output("m n", "f32"))
def copied(p: Builder, x: Array, out: Array) -> None:
    i, j = p.blocks(out.shape, (8, 32))
    p.store(p.load(p.window(x, (i, j), (8, 32))), p.window(out, (i, j), (8, 32)))


def test_the_row_stride_is_read_from_the_arrays() -> None:
    torch = pytest.importorskip("torch")
    requested: list[dict[str, int]] = []

    def kernel_of(program: Program, **sizes: int) -> Any:
        requested.append(sizes)
        return lambda *arrays, out=None: None

    kernel = KernelOfAnySize(kernel_of, copied, {"m": 5, "n": 32})
    for wide in (np.zeros((5, 48), np.float32), torch.zeros(5, 48)):
        kernel(wide[:, 8:40])
        kernel(wide[:, :32])
    kernel(np.zeros((5, 32), np.float32))
    assert [sizes["x_stride"] for sizes in requested] == [48, 32]
    for wrong in (np.zeros((5, 64), np.float32)[:, ::2], np.zeros((32, 5), np.float32).T):
        with pytest.raises(ValueError, match="stride"):
            kernel(wrong)


@program(dynamic="m", x=Input("m n", "f32"), out=InOut("m n", "f32", strided=True))
def written(p: Builder, x: Array, out: Array) -> None:
    copied.function(p, x, out)


def test_the_row_stride_of_partial_results_is_read() -> None:
    requested = RequestedSizes()
    kernel = KernelOfAnySize(requested, written, {"n": 32})
    wide = np.zeros((5, 48), np.float32)
    assert kernel(np.ones((5, 32), np.float32), wide[:, 8:40]) == (5, 2, None)
    assert requested.sizes == [{"n": 32, "m": 5, "out_stride": 48}]


def test_scalars_are_passed_on() -> None:
    kernel = KernelOfAnySize(RequestedSizes(), scaled, {"n": 32})
    assert kernel(np.zeros((5, 32), np.float32), by=3.0) == (5, 2, None)


@pytest.mark.parametrize("sizes", [{}, {"k": 64}, {"k": 64, "n": 96, "m": 5}])
def test_all_constant_sizes_are_required(sizes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="k, n"):
        KernelOfAnySize(RequestedSizes(), scaled_product, sizes)


def test_the_nearest_size_of_the_same_divisor() -> None:
    requested = problem(scaled_product, m=1000, k=64, n=96)
    distances = {
        m: problem_distance(requested, problem(scaled_product, m=m, k=64, n=96).to_json()) for m in (1, 999, 1024, 8)
    }
    assert all(d.usable and not d.differences for d in distances.values())
    assert sorted(distances, key=lambda m: distances[m].doublings) == [8, 999, 1024, 1]
    other = problem_distance(requested, problem(scaled_product, m=1000, k=64, n=192).to_json())
    assert other.differences and other.doublings == 1.0
