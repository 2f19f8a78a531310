"""``autosched.matmul`` and similar functions on simulated GPUs: their kernels, memory, results and databases."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import instant_compiler
import numpy as np
import pytest
from fake_cupy import FakeCupy, Foreign

import autosched
from autosched.dispatch import functions, lookup, resolve
from autosched.dispatch.database import Database, NoSchedule, NotTuned
from autosched.samplers.first_choices.model_choice import DefaultChoice
from measurements.compiler.pool import CompilePool
from measurements.store.store import Store, StoreError
from search_spaces.operators.problem import Problem

FLOATS = "float32"


@pytest.fixture(scope="module", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Install a fake compiler, and a fake model that chooses an arbitrary schedule.

    The tests of this file do not depend on the schedule.
    """

    def any_choice(problem: Problem, device: Any, templates: Any) -> DefaultChoice:
        kernel_template = min(templates, key=lambda t: t.name != "matvec")  # matmul has a large space
        sample = kernel_template.space(problem, device).sample(64, 1)
        return DefaultChoice(next(s for s in sample if s.values.get("finish") != "second_launch"), 1e-6)

    with pytest.MonkeyPatch.context() as patch:
        instant = partial(CompilePool, worker_module="instant_compiler", python_path=[instant_compiler.HERE])
        patch.setattr(resolve, "CompilePool", instant)
        patch.setattr(lookup, "default_choice", any_choice)
        yield


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCupy]:
    fake = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.delenv(functions.VARIABLE, raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotTuned)
        yield fake
    autosched.use(None)
    functions.forget()


@pytest.fixture
def database(tmp_path: Path) -> str:
    path = tmp_path / "best.db"
    Store.open(path).close()
    return str(path)


def arrays(cupy: FakeCupy, *shapes: tuple[int, ...], gpu: int = 0) -> list[Any]:
    with cupy.cuda.Device(gpu):
        return [cupy.zeros(shape, FLOATS) for shape in shapes]


def pointers(launch: Any, count: int) -> list[int]:
    return [p for p in launch.parameters if isinstance(p, int)][:count]


class TestCalls:
    def test_invalid_arrays_are_rejected_after_a_valid_call(self, cupy: FakeCupy, database: str) -> None:
        (x, elsewhere), (weight,) = (arrays(cupy, (4, 64), gpu=gpu)[0] for gpu in (0, 1)), arrays(cupy, (64,))
        autosched.use(database)
        autosched.rmsnorm(x, weight)
        shifted = cupy.zeros(x.size + 1, FLOATS)[1:].reshape(x.shape)
        for wrong, message in (
            (shifted, "x must start at a multiple of 16 bytes"),
            (elsewhere, "the arrays are on GPUs 1 and 0"),
            (np.zeros((4, 64), FLOATS), r"argument 1 must be an array on the GPU"),
        ):
            with pytest.raises(ValueError, match=message):
                autosched.rmsnorm(wrong, weight)
        assert len(cupy.launches) == 1

    def test_every_function(self, cupy: FakeCupy, database: str) -> None:
        x, weight, bias = arrays(cupy, (2, 4, 64), (64,), (64,))
        half = cupy.zeros((8, 64), "float16")
        autosched.use(database)
        for out, shape, dtype in (
            (autosched.softmax(x), (2, 4, 64), FLOATS),
            (autosched.rmsnorm(x, weight), (2, 4, 64), FLOATS),
            (autosched.layernorm(x, weight, bias, eps=1e-3), (2, 4, 64), FLOATS),
            (autosched.reduce(x), (2, 4), FLOATS),
            (autosched.reduce(x, kind="argmax", axis=0), (4, 64), "uint32"),
            (autosched.transpose(x), (2, 64, 4), FLOATS),
            (autosched.matvec(half[0], half), (8,), "float16"),
        ):
            assert (out.shape, out.dtype.name) == (shape, dtype)
        assert len(cupy.launches) >= 7

    def test_matmul(self, cupy: FakeCupy, database: str) -> None:
        a, b, out = (cupy.zeros(shape, "float16") for shape in ((4, 32), (48, 32), (4, 48)))
        assert autosched.matmul(a, b.T, out, database=database) is out
        (launch,) = cupy.launches
        assert pointers(launch, 3) == [a.data.ptr, b.data.ptr, out.data.ptr]
        (chosen,) = functions.chosen()
        assert '"operator":"matmul","order_a":"row","order_b":"col"' in chosen.problem

    def test_a_result_of_another_type(self, cupy: FakeCupy, database: str) -> None:
        (x,) = arrays(cupy, (4, 64))
        assert autosched.softmax(x, dtype="f16", database=database).dtype == np.float16
        out = cupy.zeros((4, 64), "float16")
        assert autosched.softmax(x, out, database=database) is out
        assert len(functions.chosen()) == 2

    def test_another_librarys_arrays(self, cupy: FakeCupy, database: str) -> None:
        x, out = arrays(cupy, (4, 64), (4, 64))
        foreign_out = Foreign(out)
        assert autosched.softmax(Foreign(x), foreign_out, database=database) is foreign_out
        assert pointers(cupy.launches[0], 2) == [x.data.ptr, out.data.ptr]

    def test_calls_run_on_the_gpu_of_the_arrays(self, cupy: FakeCupy, database: str) -> None:
        (x,) = arrays(cupy, (4, 64), gpu=1)
        assert autosched.softmax(x, database=database).device.id == 1
        assert cupy.launches[0].gpu == 1
        (y,) = arrays(cupy, (4, 64))
        autosched.softmax(y, database=database)
        assert cupy.launches[1].gpu == 0

    def test_a_kernel_is_loaded_once(self, cupy: FakeCupy, database: str, monkeypatch: pytest.MonkeyPatch) -> None:
        problems: list[Problem] = []
        kernel = Database.kernel

        def counted(self: Database, problem: Problem) -> Any:
            problems.append(problem)
            return kernel(self, problem)

        monkeypatch.setattr(Database, "kernel", counted)
        x, y = arrays(cupy, (4, 64), (4, 128))
        threads = [threading.Thread(target=lambda: autosched.softmax(x, database=database)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        autosched.softmax(y, database=database)
        assert [p.columns for p in problems] == [64, 128]  # type: ignore[attr-defined]
        assert len(cupy.launches) == 5


class TestRefused:
    def test_unsuitable_arrays_are_rejected(self, cupy: FakeCupy, database: str) -> None:
        autosched.use(database)
        x, weight = arrays(cupy, (4, 64), (64,))
        (elsewhere,) = arrays(cupy, (64,), gpu=1)
        flat = cupy.zeros(4 * 64 + 2, FLOATS)
        shifted = flat[1:257].reshape(4, 64)
        for call, message in (
            (lambda: autosched.softmax(np.zeros((4, 64))), "argument 1 must be an array on the GPU"),
            (lambda: autosched.softmax(x, np.zeros((4, 64))), "out must be an array on the GPU"),
            (lambda: autosched.rmsnorm(x, elsewhere), "the arrays are on GPUs 0 and 1: move them to one GPU"),
            (lambda: autosched.softmax(x, x), "out overlaps x in memory"),
            (lambda: autosched.softmax(x.T), "x must be dense and C-contiguous"),
            (lambda: autosched.softmax(x, weight), r"out must have the shape \(4, 64\), not \(64,\)"),
            (lambda: autosched.softmax(shifted), "x must start at a multiple of 16 bytes"),
            (lambda: autosched.reduce(x, kind="median"), "unknown kind 'median'"),
        ):
            with pytest.raises(ValueError, match=message) as caught:
                call()
            assert "\n" not in str(caught.value)
        assert cupy.launches == []


class TestDatabase:
    def test_a_missing_database_setting_is_reported(self, cupy: FakeCupy) -> None:
        (x,) = arrays(cupy, (4, 64))
        with pytest.raises(NoSchedule, match="or set AUTOSCHED_DB"):
            autosched.softmax(x)

    def test_the_argument_precedes_use_and_the_environment_variable(
        self, cupy: FakeCupy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (x,) = arrays(cupy, (4, 64))
        paths = [str(tmp_path / f"{i}.db") for i in range(3)]
        for path in paths:
            Store.open(path).close()
        monkeypatch.setenv(functions.VARIABLE, paths[0])
        autosched.softmax(x)
        autosched.use(paths[1])
        autosched.softmax(x)
        autosched.softmax(x, database=Path(paths[2]))
        autosched.softmax(x, database=Database(paths[2]))
        autosched.use(None)
        autosched.softmax(x)
        assert [c.database for c in functions.chosen()] == [*paths, paths[2]]

    def test_a_missing_database_is_rejected(self, cupy: FakeCupy, tmp_path: Path) -> None:
        (x,) = arrays(cupy, (4, 64))
        for call in (
            lambda: autosched.use(tmp_path / "none.db"),
            lambda: autosched.softmax(x, database=tmp_path / "none.db"),
        ):
            with pytest.raises(StoreError, match="there is no database"):
                call()

    def test_an_untuned_problem_warns_once(self, cupy: FakeCupy, database: str) -> None:
        (x,) = arrays(cupy, (4, 64))
        with warnings.catch_warnings(record=True) as record:
            warnings.simplefilter("always")
            for _ in range(3):
                autosched.softmax(x, database=database)
        assert [w.category for w in record] == [NotTuned]
        assert "softmax columns=64 rows=4 on h200: the time model's choice is used" in str(record[0].message)
