"""What the runtime refuses, as far as that needs no GPU."""

from __future__ import annotations

import itertools
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from autosched.runtime import LoadedKernel, _check_apart, split_outputs
from search_spaces.operators.matmul import Matmul
from search_spaces.templates.kernel import Kernel


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


PROBLEM = Matmul(4, 8, 16, a="f32", b="f32", out="f32")


class PretendedCupy:
    """Arrays on several GPUs, without contents. As in cupy, asarray copies what does not lie on the current GPU."""

    def __init__(self) -> None:
        self.current = [0]
        self.launches: list[list[int]] = []
        cupy, free = self, itertools.count(4096, 4096)

        class Array:
            dtype, flags, nbytes = np.dtype(np.float32), SimpleNamespace(c_contiguous=True), 512

            def __init__(self, gpu: int, shape: tuple[int, ...]) -> None:
                self.shape, self.device = shape, SimpleNamespace(id=gpu)
                self.data = SimpleNamespace(ptr=(gpu << 32) + next(free))
                self.__cuda_array_interface__ = {"data": (self.data.ptr, False)}

        class Device:
            def __init__(self, gpu: int | None = None) -> None:
                self.id = cupy.current[-1] if gpu is None else gpu

            def __enter__(self) -> None:
                cupy.current.append(self.id)

            def __exit__(self, *_: object) -> None:
                cupy.current.pop()

        class Stream:
            ptr = 0
            __enter__ = __exit__ = lambda *_: None

        def asarray(array: Any) -> Array:
            array = getattr(array, "array", array)
            return array if array.device.id == cupy.current[-1] else Array(cupy.current[-1], array.shape)

        def function(grid: object, block: object, arguments: tuple[Array, ...], shared_mem: int) -> None:
            self.launches.append([cupy.current[-1], *(a.data.ptr for a in arguments)])

        self.ndarray, self.asarray = Array, asarray
        self.empty = lambda shape, dtype: Array(cupy.current[-1], shape)
        self.RawModule = lambda path: SimpleNamespace(get_function=lambda name: function)
        self.cuda = SimpleNamespace(
            Device=Device,
            get_current_stream=Stream,
            runtime=SimpleNamespace(pointerGetAttributes=lambda address: SimpleNamespace(device=address >> 32)),
        )


class Foreign:
    """An array of another library over the memory of one of cupy."""

    def __init__(self, array: Any) -> None:
        self.array = array
        self.__cuda_array_interface__ = array.__cuda_array_interface__


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> PretendedCupy:
    pretended = PretendedCupy()
    monkeypatch.setitem(sys.modules, "cupy", pretended)
    return pretended


def loaded(cupy: PretendedCupy, gpu: int) -> LoadedKernel:
    kernel = Kernel(entry="f", source="", arguments=PROBLEM.operands(), grid=(1, 1, 1), block=(32, 1, 1))
    with cupy.cuda.Device(gpu):
        return LoadedKernel(kernel, SimpleNamespace(entry="f", path="f.cubin"), None)  # type: ignore[arg-type]


def arrays(cupy: PretendedCupy, gpu: int) -> list[Any]:
    return [cupy.ndarray(gpu, o.shape) for o in PROBLEM.operands()]


@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize("wrapped", [Foreign, lambda array: array])
def test_a_kernel_runs_on_its_own_gpu_whichever_is_current(cupy: PretendedCupy, current: int, wrapped: Any) -> None:
    kernel = loaded(cupy, 1)
    a, b, out = arrays(cupy, 1)
    cupy.current = [current]
    assert kernel(wrapped(a), wrapped(b)).device.id == 1
    kernel(wrapped(a), wrapped(b), out=wrapped(out))
    assert cupy.launches[1] == [1, a.data.ptr, b.data.ptr, out.data.ptr]


@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize("wrapped", [Foreign, lambda array: array])
def test_an_array_on_another_gpu_is_refused_and_not_copied(cupy: PretendedCupy, current: int, wrapped: Any) -> None:
    kernel = loaded(cupy, 1)
    a, b, _ = arrays(cupy, 1)
    elsewhere = arrays(cupy, 0)
    cupy.current = [current]
    for name, call in (
        ("a", lambda: kernel(wrapped(elsewhere[0]), b)),
        ("b", lambda: kernel(a, wrapped(elsewhere[1]))),
        ("out", lambda: kernel(a, b, out=wrapped(elsewhere[2]))),
    ):
        with pytest.raises(ValueError, match=f"{name} is on GPU 0, and the kernel on GPU 1: move one"):
            call()
    assert cupy.launches == []
