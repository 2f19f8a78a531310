"""Loaded kernels on simulated GPUs: launches, arrays, devices, streams, and rejected arguments."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_cupy import Exchanged, FakeCupy, Foreign

from autosched.dispatch.given_arrays import arguments, check_apart, check_array, split_outputs
from autosched.dispatch.kernel import CubinKernel
from autosched.dispatch.provenance import KernelProvenance, Kind
from search_spaces.hardware.dtypes import F32, SCALAR_DTYPES, U32
from search_spaces.launches.launch import Argument, Launch, ScalarArgument
from search_spaces.launches.operand import Operand
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

PROBLEM = Matmul(4, 8, 16, a="f32", b="f32", out="f32")
PROVENANCE = KernelProvenance(Kind.EXACT, PROBLEM.key(), "h200", "best.db", Schedule("matmul", (("x", 1),)))


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
    fake = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    return fake


@pytest.fixture
def cubin(tmp_path: Path) -> str:
    (tmp_path / "f.cubin").write_bytes(b"program")
    return str(tmp_path / "f.cubin")


def loaded(cupy: FakeCupy, cubin: str, gpu: int = 0, takes: tuple[Argument, ...] = PROBLEM.operands()) -> CubinKernel:
    launch = Launch(entry="f", arguments=takes, grid=(3, 1, 1), block=(32, 1, 1), dynamic_shared_bytes=7)
    with cupy.cuda.Device(gpu):
        return CubinKernel(cupy, launch, cubin, PROVENANCE)


def arrays(cupy: FakeCupy, gpu: int = 0, problem: Any = PROBLEM) -> list[Any]:
    with cupy.cuda.Device(gpu):
        return [cupy.zeros(o.shape, o.dtype.storage) for o in problem.operands()]


def same(array: Any) -> Any:
    return array


class TestStridedInputs:
    """Inputs that are columns of larger arrays. The launch passes the row stride of the larger array."""

    @pytest.mark.parametrize(("stride", "offset", "ok"), [(24, 0, True), (24, 4, True), (24, 1, False), (25, 1, True)])
    def test_views(self, cupy: FakeCupy, cubin: str, stride: int, offset: int, ok: bool) -> None:
        takes = (Operand("x", "input", F32, (4, stride), columns=8), Operand("out", "output", F32, (4, 8)))
        kernel = loaded(cupy, cubin, takes=takes)
        wide = cupy.zeros((4, stride), "float32")
        view = wide._as(wide.host[:, offset : offset + 8])
        if ok:
            kernel(view)
            assert cupy.launches[-1].parameters[0] == wide.data.ptr + 4 * offset
        else:
            with pytest.raises(ValueError, match="16 bytes"):
                kernel(view)
        other = cupy.zeros((4, stride + 1), "float32")
        for wrong in (other._as(other.host[:, :8]), wide, wide._as(wide.host[:, :16:2])):
            with pytest.raises(ValueError, match="x"):
                kernel(wrong)


class TestScalars:
    """Scalars, which every call passes by value."""

    def test_scalars_are_passed_by_name(self, cupy: FakeCupy, cubin: str) -> None:
        takes = (
            *PROBLEM.operands(),
            ScalarArgument("eps", F32, 0.5, (0.0, 4.0)),
            Operand("partial", "workspace", F32, (4,)),
            ScalarArgument("size_m", U32, 7),
            ScalarArgument("count", U32, 3, (0, 9)),
        )
        kernel = loaded(cupy, cubin, takes=takes)
        a, b, out = arrays(cupy)
        for keywords, expected in (
            ({}, (0.5, 3)),
            ({"count": 4, "eps": 1}, (1.0, 4)),
            ({"eps": np.float32(2)}, (2.0, 3)),
        ):
            kernel(a, b, out=out, **keywords)
            parameters = cupy.launches[-1].parameters
            assert [float(parameters[i].item()) for i in (3, 5, 6)] == [expected[0], 7.0, float(expected[1])]
        kernel.bind(a, b, out=out, eps=3.0)()
        assert cupy.launches[-1].parameters[3].item() == 3.0
        names = [o.name for o in (*kernel.inputs, *kernel.outputs)]
        steps = kernel.driver_steps(names, [256, 512, 1024], None)
        assert steps is not None
        assert np.frombuffer(steps[0].parameters[3].content, np.float32).tolist() == [0.5]
        for wrong in ({"eps": -1.0}, {"count": 10}, {"count": 1.5}, {"count": True}, {"eps": "a lot"}):
            with pytest.raises((ValueError, TypeError)):
                kernel(a, b, out=out, **wrong)


class TestLaunch:
    def test_a_call_launches_the_kernel_with_its_arrays(self, cupy: FakeCupy, cubin: str) -> None:
        kernel = loaded(cupy, cubin)
        a, b, out = arrays(cupy)
        assert kernel(a, b, out=out) is out
        (launch,) = cupy.launches
        assert (launch.cubin, launch.entry, launch.shared) == (b"program", "f", 7)
        assert (launch.grid, launch.block) == ((3, 1, 1), (32, 1, 1))
        assert launch.parameters == (a.data.ptr, b.data.ptr, out.data.ptr)

    def test_a_new_result(self, cupy: FakeCupy, cubin: str) -> None:
        kernel = loaded(cupy, cubin)
        a, b, _ = arrays(cupy)
        out = kernel(a, b=b)
        assert isinstance(out, cupy.ndarray) and (out.shape, out.dtype) == ((1, 4, 8), np.float32)
        assert cupy.launches[0].parameters[2] == out.data.ptr
        assert kernel(a[0], b).shape == (4, 8)

    def test_a_bf16_result_has_the_array_type_of_the_inputs(self, cupy: FakeCupy, cubin: str) -> None:
        problem = Matmul(4, 8, 16, a="bf16", out="f32")
        kernel = loaded(cupy, cubin, takes=problem.operands())
        a, b, _ = arrays(cupy, problem=problem)
        assert kernel(a, b).dtype == np.float32
        kernel = loaded(cupy, cubin, takes=Matmul(4, 8, 16, a="bf16").operands())
        assert kernel(a, b).dtype == np.uint16

    def test_several_outputs_and_scalars(self, cupy: FakeCupy, cubin: str) -> None:
        outputs = (Operand("most", "output", F32, (2,)), Operand("where", "output", U32, (2,)))
        takes = (*outputs, Operand("x", "input", F32, (2, 8)), ScalarArgument("n", SCALAR_DTYPES["i32"], 8))
        kernel = loaded(cupy, cubin, takes=takes)
        x = cupy.zeros((2, 8), "f4")
        most, where = kernel(x)
        assert (most.dtype, where.dtype) == (np.float32, np.uint32)
        *addresses, n = cupy.launches[0].parameters
        assert addresses == [most.data.ptr, where.data.ptr, x.data.ptr]
        assert (n.dtype, n.tolist()) == (np.int32, [8])
        assert kernel(x, out=(most, where)) == (most, where)
        assert kernel.bind(x, most, where)() == (most, where)

    def test_a_pipeline(self, cupy: FakeCupy, cubin: str) -> None:
        a, b, out = PROBLEM.operands()
        sums = Operand("sums", "workspace", F32, (5,))
        last = Launch(entry="g", arguments=(sums, out), grid=(2, 1, 1), block=(64, 1, 1))
        first = Launch(entry="f", arguments=(a, b, sums), grid=(3, 1, 1), block=(32, 1, 1), then=(last,))
        kernel = CubinKernel(cupy, first, cubin, PROVENANCE)
        of_a, of_b, result = arrays(cupy)
        assert kernel(of_a, of_b, out=result) is result
        kernel.bind(of_a, of_b, result)()
        for f, g in (cupy.launches[:2], cupy.launches[2:]):
            assert (f.entry, f.parameters[:2]) == ("f", (of_a.data.ptr, of_b.data.ptr))
            assert (g.entry, g.grid, g.parameters) == ("g", (2, 1, 1), (f.parameters[2], result.data.ptr))

    def test_an_array_that_is_read_and_written_is_the_result(self, cupy: FakeCupy, cubin: str) -> None:
        takes = (Operand("x", "inout", F32, (8,)), Operand("y", "input", F32, (8,)))
        kernel = loaded(cupy, cubin, takes=takes)
        x, y = cupy.zeros(8, "f4"), cupy.zeros(8, "f4")
        assert kernel(x, y) is x
        with pytest.raises(ValueError, match="modifies x in place: omit out="):
            kernel(x, y, out=x)
        with pytest.raises(ValueError, match="x overlaps y in memory"):
            kernel(x, x)

    def test_workspaces_are_allocated_once_per_stream(self, cupy: FakeCupy, cubin: str) -> None:
        takes = (*PROBLEM.operands(), Operand("sums", "workspace", F32, (5,), zeroed=True))
        kernel = loaded(cupy, cubin, takes=takes)
        a, b, out = arrays(cupy)
        bound = kernel.bind(a, b, out)
        for run in (lambda: kernel(a, b, out=out), bound):
            run()
            with cupy.cuda.Stream(77):
                run()
        first, second = (cupy.launches[i].parameters[3] for i in (0, 1))
        assert first != second
        assert [launch.parameters[3] for launch in cupy.launches] == [first, second] * 2

    @pytest.mark.parametrize("current", [0, 1])
    @pytest.mark.parametrize("wrapped", [Foreign, Exchanged, same])
    def test_a_kernel_runs_on_its_own_gpu(self, cupy: FakeCupy, cubin: str, current: int, wrapped: Any) -> None:
        kernel = loaded(cupy, cubin, 1)
        a, b, out = arrays(cupy, 1)
        with cupy.cuda.Device(current):
            assert kernel(wrapped(a), wrapped(b)).device.id == 1
            kernel(wrapped(a), wrapped(b), out=wrapped(out))
            kernel.bind(wrapped(a), wrapped(b), wrapped(out))()
        assert {launch.gpu for launch in cupy.launches} == {1}
        for launch in cupy.launches[1:]:
            assert launch.parameters == (a.data.ptr, b.data.ptr, out.data.ptr)

    def test_a_kernel_runs_on_the_stream_current_at_the_call(self, cupy: FakeCupy, cubin: str) -> None:
        kernel = loaded(cupy, cubin)
        a, b, out = arrays(cupy)
        bound = kernel.bind(a, b, out)
        with cupy.cuda.Stream(5):
            kernel(a, b, out=out)
        bound()
        with cupy.cuda.Stream(6):
            bound()
        assert [launch.stream for launch in cupy.launches] == [5, 0, 6]

    def test_many_threads_call_a_kernel(self, cupy: FakeCupy, cubin: str) -> None:
        kernel = loaded(cupy, cubin)
        failed: list[BaseException] = []

        def work() -> None:
            try:
                for _ in range(50):
                    a, b, out = arrays(cupy)
                    assert kernel(a, b, out=out) is out
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        assert len({launch.parameters for launch in cupy.launches}) == len(cupy.launches) == 200


class TestBound:
    def test_a_bound_kernel_repeats_its_launch(self, cupy: FakeCupy, cubin: str) -> None:
        kernel = loaded(cupy, cubin)
        a, b, out = arrays(cupy)
        for bound in (kernel.bind(a, b, out), kernel.bind(a, b=b, out=out)):
            cupy.launches.clear()
            assert bound() is bound() is bound.result is out
            assert {launch.parameters for launch in cupy.launches} == {(a.data.ptr, b.data.ptr, out.data.ptr)}
            assert len(cupy.launches) == 2

    def test_a_bound_kernel_allocates_its_output_once(self, cupy: FakeCupy, cubin: str) -> None:
        a, b, _ = arrays(cupy)
        bound = loaded(cupy, cubin).bind(a, b)
        assert bound() is bound() and bound.result.shape == (1, 4, 8)

    def test_bind_checks_its_arrays(self, cupy: FakeCupy, cubin: str) -> None:
        a, b, _ = arrays(cupy)
        with pytest.raises(ValueError, match="b must be of type f32"):
            loaded(cupy, cubin).bind(a, cupy.zeros(b.shape, "f8"))
        with pytest.raises(TypeError, match=r"\(4\)"):
            loaded(cupy, cubin).bind(a, a, a, a)


class TestRefused:
    @pytest.mark.parametrize("current", [0, 1])
    @pytest.mark.parametrize("wrapped", [Foreign, Exchanged, same])
    def test_an_array_on_another_gpu_is_rejected(self, cupy: FakeCupy, cubin: str, current: int, wrapped: Any) -> None:
        kernel = loaded(cupy, cubin, 1)
        a, b, _ = arrays(cupy, 1)
        elsewhere = arrays(cupy, 0)
        with cupy.cuda.Device(current):
            for name, call in (
                ("a", lambda: kernel(wrapped(elsewhere[0]), b)),
                ("b", lambda: kernel(a, wrapped(elsewhere[1]))),
                ("out", lambda: kernel(a, b, out=wrapped(elsewhere[2]))),
            ):
                with pytest.raises(ValueError, match=f"{name} is on GPU 0, but the kernel is on GPU 1"):
                    call()
        assert cupy.launches == []

    @pytest.mark.parametrize("array", [np.zeros((4, 16), "f4"), [1.0], None, "exchanged"])
    def test_arrays_outside_a_gpu_are_rejected(self, cupy: FakeCupy, cubin: str, array: Any) -> None:
        _, b, _ = arrays(cupy)
        if isinstance(array, str):
            array = Exchanged(b, kind=1)  # DLPack's device type of host memory
        with pytest.raises(ValueError, match=r"a must be an array on the GPU \(cupy or torch\), not"):
            loaded(cupy, cubin)(array, b)

    def test_an_output_over_an_input(self, cupy: FakeCupy, cubin: str) -> None:
        kernel = loaded(cupy, cubin)
        a, b, _ = arrays(cupy)
        with pytest.raises(ValueError, match="out overlaps b in memory"):
            kernel(a, b, out=b.reshape(-1)[:32].reshape(4, 8))
        assert cupy.launches == []

    def test_invalid_arrays_are_rejected_after_a_valid_call(self, cupy: FakeCupy, cubin: str) -> None:
        kernel = loaded(cupy, cubin)
        a, b, out = arrays(cupy)
        kernel(a, b, out=out)
        shifted = cupy.zeros(a.size + 1, "f4")[1:].reshape(a.shape)
        assert (shifted.shape, shifted.strides, shifted.dtype) == (a.shape, a.strides, a.dtype)
        for wrong, message in (
            ((shifted, b), "a must start at a multiple of 16 bytes"),
            ((arrays(cupy, 1)[0], b), "a is on GPU 1, but the kernel is on GPU 0"),
            ((a, cupy.zeros(b.shape, "i4")), "b must be of type f32, not int32"),
            ((a.reshape(64), b), "a must have the shape"),
        ):
            with pytest.raises(ValueError, match=message):
                kernel(*wrong, out=out)
        with pytest.raises(ValueError, match="out overlaps a in memory"):
            kernel(a, b, out=a.reshape(-1)[:32].reshape(out.shape))
        assert len(cupy.launches) == 1

    def test_overlaps(self) -> None:
        check_apart(("a", "b", "out"), (0, 128, 64), (64, 64, 64), 2)
        with pytest.raises(ValueError, match="out overlaps b in memory"):
            check_apart(("a", "b", "out"), (0, 120, 64), (64, 64, 64), 2)

    def test_several_outputs_must_be_a_tuple(self) -> None:
        outputs = [o for o in Matmul(4, 4, 4, reduction="row_sum").operands() if o.role == "output"]
        assert split_outputs(outputs[:1], "c") == ("c",)
        assert split_outputs(outputs, ["c", "r"]) == ("c", "r")
        for wrong in ("cr", ("c",), None):
            with pytest.raises(ValueError, match="a tuple of 2 arrays: out, reduced"):
                split_outputs(outputs, wrong)


class TestArguments:
    INPUTS = tuple(o for o in Matmul(m=96, n=80, k=64, epilogue="bias").operands() if o.role == "input")

    def test_arguments_are_given_in_order_or_by_name(self) -> None:
        assert arguments(self.INPUTS, (1, 2, 3), {}) == {"a": 1, "b": 2, "bias": 3}
        assert arguments(self.INPUTS, (1,), {"bias": 3, "b": 2}) == {"a": 1, "b": 2, "bias": 3}

    @pytest.mark.parametrize(
        ("positional", "named", "message"),
        [
            ((1, 2), {}, "missing arguments bias"),
            ((1, 2, 3, 4), {}, r"\(4\)"),
            ((1, 2, 3), {"a": 1}, "argument a"),
            ((1, 2), {"c": 1}, "argument c"),
        ],
    )
    def test_wrong_arguments(self, positional: tuple[int, ...], named: dict[str, int], message: str) -> None:
        with pytest.raises(TypeError, match=message):
            arguments(self.INPUTS, positional, named)

    def check(self, array: np.ndarray, address: int = 4096) -> None:
        check_array(self.INPUTS[0], array.shape, array.dtype.name, array.flags.c_contiguous, address)

    def test_a_valid_array_is_accepted_with_and_without_a_batch_of_one(self) -> None:
        self.check(np.zeros((1, 96, 64), np.float16))
        self.check(np.zeros((96, 64), np.float16))

    @pytest.mark.parametrize(
        ("array", "message"),
        [
            (np.zeros((96, 64), np.float32), "a must be of type f16, not float32"),
            (np.zeros((64, 96), np.float16), r"a must have the shape \(1, 96, 64\) in memory, not \(64, 96\)"),
            (np.zeros((2, 96, 64), np.float16), "shape"),
            (np.zeros((96,), np.float16), "shape"),
            (np.zeros((64, 96), np.float16).T, "dense and C-contiguous"),
            (np.zeros((96, 128), np.float16)[:, ::2], "dense and C-contiguous"),
        ],
    )
    def test_unsuitable_arrays_are_rejected(self, array: np.ndarray, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            self.check(array)

    def test_alignment(self) -> None:
        with pytest.raises(ValueError, match="multiple of 16 bytes"):
            self.check(np.zeros((96, 64), np.float16), 4096 + 8)


class Tensor:
    """A fake torch tensor, which shares the memory of a fake array."""

    def __init__(self, array: Any, dtype: str, is_cuda: bool = True) -> None:
        self.array, self.dtype, self.is_cuda = array, f"torch.{dtype}", is_cuda
        self.device = SimpleNamespace(index=array.gpu)
        self.shape = array.shape

    def stride(self) -> tuple[int, ...]:
        return tuple(s // self.array.dtype.itemsize for s in self.array.strides)

    def is_contiguous(self) -> bool:
        return bool(self.array.flags.c_contiguous)

    def data_ptr(self) -> int:
        return int(self.array.data.ptr)

    def get_device(self) -> int:
        return int(self.array.gpu)

    def new_empty(self, shape: tuple[int, ...], dtype: str) -> Tensor:
        array = self.array
        return Tensor(type(array).new(np.zeros(shape, "u2" if dtype == "bfloat16" else dtype), array.gpu), dtype)


@pytest.fixture
def torch(cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    current = SimpleNamespace(cuda_stream=0)
    numbered = SimpleNamespace(current_stream=lambda _gpu: SimpleNamespace(stream_id=current.cuda_stream))

    fake = SimpleNamespace(
        Tensor=Tensor,
        bfloat16="bfloat16",
        float32="float32",
        current=current,
        cuda=SimpleNamespace(current_stream=lambda _gpu: current),
        accelerator=numbered,
    )
    monkeypatch.setitem(sys.modules, "torch", fake)
    return fake


class TestTensors:
    def test_tensors_on_the_current_stream_of_torch(self, cupy: FakeCupy, torch: Any, cubin: str) -> None:
        kernel = loaded(cupy, cubin, 1)
        a, b, out = (Tensor(array, "float32") for array in arrays(cupy, 1))
        torch.current.cuda_stream = 99
        result = kernel(a, b)
        assert isinstance(result, Tensor) and result.dtype == "torch.float32" and result.array.gpu == 1
        assert kernel(a, b, out=out) is out
        bound = kernel.bind(a, b, out)
        torch.current.cuda_stream = 98
        assert bound() is out
        assert [(launch.gpu, launch.stream) for launch in cupy.launches] == [(1, 99), (1, 99), (1, 98)]
        assert cupy.launches[1].parameters == (a.data_ptr(), b.data_ptr(), out.data_ptr())

    def test_a_stream_that_was_seen_before_is_known_by_its_number(self, cupy: FakeCupy, torch: Any, cubin: str) -> None:
        kernel = loaded(cupy, cubin)
        a, b, out = (Tensor(array, "float32") for array in arrays(cupy))
        queries = []
        torch.cuda.current_stream = lambda gpu: queries.append(gpu) or torch.current
        for stream in (7001, 0, 7001, 7002, 0):
            torch.current.cuda_stream = stream
            kernel(a, b, out=out)
        assert [launch.stream for launch in cupy.launches] == [7001, 0, 7001, 7002, 0]
        assert len(queries) <= 3

    def test_bf16_is_a_type_of_torch(self, cupy: FakeCupy, torch: Any, cubin: str) -> None:
        problem = Matmul(4, 8, 16, a="bf16")
        kernel = loaded(cupy, cubin, takes=problem.operands())
        a, b, _ = (Tensor(array, "bfloat16") for array in arrays(cupy, problem=problem))
        assert kernel(a, b).dtype == "torch.bfloat16"
        with pytest.raises(ValueError, match="b must be of type bf16, not float16"):
            kernel(a, Tensor(b.array, "float16"))

    def test_torch_strides_are_counted_in_elements(self, cupy: FakeCupy, torch: Any, cubin: str) -> None:
        """This view's strides of (64, 4) elements would be the strides of a dense array if they were in bytes."""
        kernel = loaded(cupy, cubin)
        _, b, _ = (Tensor(array, "float32") for array in arrays(cupy))
        sparse = Tensor(cupy.zeros((4, 64), "f4")[:, ::4], "float32")
        assert (sparse.shape, sparse.stride()) == ((4, 16), (64, 4))
        with pytest.raises(ValueError, match="a must be dense"):
            kernel(sparse, b)

    def test_a_tensor_of_the_host_is_rejected(self, cupy: FakeCupy, torch: Any, cubin: str) -> None:
        a, b, _ = (Tensor(array, "float32") for array in arrays(cupy))
        a.is_cuda = False
        with pytest.raises(ValueError, match=r"a must be an array on the GPU \(cupy or torch\), not Tensor"):
            loaded(cupy, cubin)(a, b)
