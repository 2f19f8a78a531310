import dataclasses
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernels import generate

from autosched import database as database_module
from autosched.database import Database, NoSchedule, StaleSchedule, current_kernel
from autosched.runtime import LoadedKernel, RuntimeUnavailable, bind, check_array
from measurements.measurement import Measurement, Provenance, Status, Timing
from measurements.record import Record
from measurements.runners import cuda
from measurements.store import Store, StoreError
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul

H200 = device("h200")
PROBLEM = Matmul(m=96, n=80, k=64)
SCHEDULES = template("matmul").space(PROBLEM, H200).sample(3, 5)


def record(seconds: float, on: str = "h200", which: int = 0, digest: str | None = None) -> Record:
    return Record(
        problem_key=PROBLEM.key(),
        schedule=SCHEDULES[which],
        device=on,
        fingerprint="{}",
        template_version="v1",
        space_version="s",
        kernel_digest=digest or generate(PROBLEM, SCHEDULES[which], H200).digest,
        measurement=Measurement(Status.OK, Provenance.ESTIMATED, timing=Timing.estimate(seconds)),
        toolchain="",
        driver="",
        autosched_version="0.1.0",
        created=datetime.now(UTC),
        sampler="random",
        seed=0,
    )


def written(path: Path, *records: Record) -> Database:
    with Store.open(path / "best.db") as store:
        for one in records:
            store.append(one)
    return Database(path / "best.db")


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "cuda_available", lambda: (False, "there is none"))


@pytest.fixture
def an_h200(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "cuda_available", lambda: (True, "it answers"))
    monkeypatch.setattr(cuda, "cuda_device", lambda: H200)


class TestBest:
    def test_the_only_device_need_not_be_named(self, tmp_path: Path, no_gpu: None) -> None:
        database = written(tmp_path, record(2e-6, "a100"), record(1e-6, "a100", 1))
        best = database.best(PROBLEM)
        assert best is not None and best.seconds == 1e-6
        assert database.best(PROBLEM, "h200") is None
        assert database.best(PROBLEM, H200) is None

    def test_devices_are_not_compared(self, tmp_path: Path, no_gpu: None) -> None:
        database = written(tmp_path, record(2e-6, "a100"), record(1e-6, "h200"))
        with pytest.raises(NoSchedule, match="for a100, h200: name one"):
            database.best(PROBLEM)
        best = database.best(PROBLEM, "a100")
        assert best is not None and best.seconds == 2e-6

    def test_the_gpu_that_is_here_comes_first(self, tmp_path: Path, an_h200: None) -> None:
        database = written(tmp_path, record(1e-6, "a100"), record(2e-6, "h200"))
        best = database.best(PROBLEM)
        assert best is not None and best.device == "h200"

    def test_nothing_is_none(self, tmp_path: Path, no_gpu: None) -> None:
        assert written(tmp_path).best(PROBLEM) is None
        assert written(tmp_path, record(1e-6)).best(Matmul(m=97, n=80, k=64)) is None

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((None,), "expected a problem"),
            ((PROBLEM, "h300"), "unknown device 'h300'.*h200.*best.db holds a100, mine"),
            ((PROBLEM, 5), "a device name must be a string, not 5"),
            ((PROBLEM, "h200", "guessed"), "unknown provenance 'guessed': use one of measured, replayed, estimated"),
        ],
    )
    def test_what_is_no_question(self, tmp_path: Path, no_gpu: None, arguments: tuple[Any, ...], message: str) -> None:
        database = written(tmp_path, record(1e-6, "a100"), record(1e-6, "mine"))
        with pytest.raises(ValueError, match=message) as caught:
            database.best(*arguments)
        assert "\n" not in str(caught.value)

    def test_names_as_people_write_them(self, tmp_path: Path, no_gpu: None) -> None:
        database = written(tmp_path, record(1e-6, "h200"), record(2e-6, "mine"))
        for name, seconds in (("H200", 1e-6), ("mine", 2e-6)):
            best = database.best(PROBLEM, name, "estimated")
            assert best is not None and best.seconds == seconds
        assert database.best(PROBLEM, "mine", "measured") is None

    def test_a_database_that_is_not_there(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="there is no database"):
            Database(tmp_path / "none.db")
        assert list(tmp_path.iterdir()) == []


class TestKernel:
    def test_without_a_gpu(self, tmp_path: Path, no_gpu: None) -> None:
        with pytest.raises(RuntimeUnavailable, match="there is none"):
            written(tmp_path, record(1e-6)).kernel(PROBLEM)

    def test_a_schedule_of_another_device_is_never_taken(self, tmp_path: Path, an_h200: None) -> None:
        with pytest.raises(NoSchedule, match="only for a100: tune it on h200 first"):
            written(tmp_path, record(1e-6, "a100")).kernel(PROBLEM)

    def test_nothing(self, tmp_path: Path, an_h200: None) -> None:
        with pytest.raises(NoSchedule, match="for no device"):
            written(tmp_path).kernel(PROBLEM)

    def test_the_code_of_today_is_generated(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert current_kernel(PROBLEM, record(1e-6), H200) == generate(PROBLEM, SCHEDULES[0], H200)

    def test_other_code_than_was_timed_is_said_loudly(self) -> None:
        with pytest.warns(StaleSchedule, match="tune the problem again"):
            current_kernel(PROBLEM, record(1e-6, digest="other"), H200)

    def test_a_schedule_that_cannot_be_generated_any_more(self) -> None:
        stale = dataclasses.replace(record(1e-6), schedule=SCHEDULES[0].replace(tile_m=7))
        with pytest.raises(NoSchedule, match="older version"):
            current_kernel(PROBLEM, stale, H200)


class TestArguments:
    INPUTS = tuple(o for o in Matmul(m=96, n=80, k=64, epilogue="bias").operands() if o.role == "input")

    def test_in_order_or_by_name(self) -> None:
        assert bind(self.INPUTS, (1, 2, 3), {}) == {"a": 1, "b": 2, "bias": 3}
        assert bind(self.INPUTS, (1,), {"bias": 3, "b": 2}) == {"a": 1, "b": 2, "bias": 3}

    @pytest.mark.parametrize(
        ("arrays", "named", "message"),
        [
            ((1, 2), {}, "bias is missing"),
            ((1, 2, 3, 4), {}, "4 arrays were given"),
            ((1, 2, 3), {"a": 1}, "a is one too many"),
            ((1, 2), {"c": 1}, "c is one too many"),
        ],
    )
    def test_wrong_arguments(self, arrays: tuple[int, ...], named: dict[str, int], message: str) -> None:
        with pytest.raises(TypeError, match=message):
            bind(self.INPUTS, arrays, named)

    def check(self, array: np.ndarray, address: int = 4096) -> None:
        check_array(self.INPUTS[0], array.shape, array.dtype, array.flags.c_contiguous, address)

    def test_a_good_array_with_and_without_the_batch_of_one(self) -> None:
        self.check(np.zeros((1, 96, 64), np.float16))
        self.check(np.zeros((96, 64), np.float16))

    @pytest.mark.parametrize(
        ("array", "message"),
        [
            (np.zeros((96, 64), np.float32), "a must hold f16, not float32"),
            (np.zeros((64, 96), np.float16), r"a must have the shape \(1, 96, 64\) in memory, not \(64, 96\)"),
            (np.zeros((2, 96, 64), np.float16), "shape"),
            (np.zeros((96,), np.float16), "shape"),
            (np.zeros((64, 96), np.float16).T, "dense and C-contiguous"),
            (np.zeros((96, 128), np.float16)[:, ::2], "dense and C-contiguous"),
        ],
    )
    def test_what_the_kernel_would_misread(self, array: np.ndarray, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            self.check(array)

    def test_alignment(self) -> None:
        with pytest.raises(ValueError, match="multiple of 16 bytes"):
            self.check(np.zeros((96, 64), np.float16), 4096 + 8)


@pytest.mark.gpu
class TestOnGpu:
    """Kernels of a database called on arrays of cupy and torch."""

    @pytest.mark.parametrize("split_k", [False, True])
    def test_cupy_arrays(self, tmp_path: Path, split_k: bool) -> None:
        import cupy

        problem = Matmul(m=96, n=80, k=512)
        gpu = cuda.cuda_device()
        some = template("matmul").space(problem, gpu).sample(300, 1)
        schedule = next(s for s in some if (s.integer("split_k") > 1) == split_k)
        made = dataclasses.replace(
            record(1e-6, gpu.name),
            problem_key=problem.key(),
            schedule=schedule,
            kernel_digest=generate(problem, schedule, gpu).digest,
        )
        kernel = written(tmp_path, made).kernel(problem)
        assert isinstance(kernel, LoadedKernel)
        inputs = problem.random_inputs(3)
        a, b = cupy.asarray(inputs["a"]), cupy.asarray(inputs["b"])
        expected, allowed = problem.reference(inputs)["out"], problem.tolerance(inputs)["out"]
        for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
            cupy.cuda.get_current_stream().synchronize()
            with stream:
                for _ in range(3):  # workspaces are left as they were found
                    out = kernel(a, b=b)
                    found = cupy.asnumpy(out).astype(np.float64)
                    assert found.shape == expected.shape
                    assert (np.abs(found - expected) <= allowed).all()
        assert kernel(a[0], b[0]).shape == (96, 80)
        target = cupy.empty((1, 96, 80), cupy.float16)
        assert kernel(a, b, out=target) is target
        with pytest.raises(ValueError, match="must be an array on the GPU"):
            kernel(inputs["a"], b)

    @pytest.mark.parametrize("dtype", ["f16", "bf16"])
    def test_torch_tensors(self, tmp_path: Path, dtype: str) -> None:
        torch = pytest.importorskip("torch")
        problem = Matmul(m=96, n=80, k=64, a=dtype, b=dtype, out=dtype)
        gpu = cuda.cuda_device()
        schedule = template("matmul").space(problem, gpu).sample(1, 1)[0]
        made = dataclasses.replace(
            record(1e-6, gpu.name),
            problem_key=problem.key(),
            schedule=schedule,
            kernel_digest=generate(problem, schedule, gpu).digest,
        )
        kernel = written(tmp_path, made).kernel(problem)
        kind = torch.float16 if dtype == "f16" else torch.bfloat16
        a, b = (torch.randn(shape, device="cuda").to(kind) for shape in ((96, 64), (64, 80)))
        with torch.cuda.stream(torch.cuda.Stream()):
            out = kernel(a, b)
        torch.cuda.synchronize()
        assert out.dtype is kind and out.shape == (96, 80)
        assert torch.allclose(out.float(), a.float() @ b.float(), atol=0.2, rtol=0.02)


def test_the_module_does_not_load_cupy() -> None:
    assert not hasattr(database_module, "cupy")
