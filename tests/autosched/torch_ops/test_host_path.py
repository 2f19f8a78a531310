"""Operators in the C++ launch table make the same launches as the Python path. All other calls use the Python path."""

from __future__ import annotations

import ctypes
import gc
import itertools
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from kernels import generate, space_of
from needs import needs_compiler, needs_nvrtc

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")

from host_path_stand_in import Driver, Launched, stand_in  # noqa: E402
from tile_operator_calls import PROBLEMS, called, outputs  # noqa: E402

import autosched  # noqa: E402
from autosched.dispatch import call_log, functions  # noqa: E402
from autosched.dispatch.database import Database, NoSchedule  # noqa: E402
from autosched.dispatch.kernel import CubinKernel, LoadedKernel  # noqa: E402
from autosched.dispatch.provenance import KernelProvenance, Kind  # noqa: E402
from autosched.torch import formulas, ops, tile_ops  # noqa: E402
from autosched.torch.host_path import HostLaunchTable  # noqa: E402
from measurements.emulator import emulate  # noqa: E402
from search_spaces.catalogue import tile_problems  # noqa: E402
from search_spaces.hardware.devices import device  # noqa: E402
from search_spaces.launches.launch import Launch  # noqa: E402
from search_spaces.operators.matmul import Matmul  # noqa: E402
from search_spaces.operators.problem import Problem  # noqa: E402
from search_spaces.operators.row_reduction import LayerNorm, Reduce, RmsNorm, Softmax  # noqa: E402
from search_spaces.operators.transpose import Transpose  # noqa: E402
from search_spaces.spaces.schedule import Schedule  # noqa: E402

pytestmark = needs_compiler
H200 = device("h200")
SPACE = "autosched_host_path"  # namespace of the operators under test, which are implemented for CPU tensors


class Fixed(Database):
    """A database with the kernels of ``schedules``. Other problems get fake kernels that take the problem's arrays.

    With ``sampled``, the kernels of other problems come from a sampled schedule.
    """

    def __init__(self, folder: Path, cupy: Any, schedules: Any = (), *, sampled: bool = False) -> None:
        super().__init__(None)
        self._folder, self._cupy, self._schedules, self._sampled = folder, cupy, dict(schedules), sampled
        self.loaded: list[weakref.ref[LoadedKernel]] = []
        self._kernels: weakref.WeakValueDictionary[Problem, LoadedKernel] = weakref.WeakValueDictionary()

    def kernel(self, problem: Any, **_: Any) -> LoadedKernel:
        if problem in self._kernels:
            return self._kernels[problem]
        schedule = self._schedules.get(problem)
        if schedule is None and self._sampled:
            schedule = space_of(problem, H200).sample(1, 0)[0]
        launch = Launch(entry="f", arguments=tuple(problem.operands()), grid=(3, 1, 1), block=(32, 1, 1))
        if schedule is not None:
            launch = generate(problem, schedule, H200)
        cubin = self._folder / "kernel.cubin"
        cubin.write_text(f"{id(self)} {problem.key()}")
        provenance = KernelProvenance(Kind.EXACT, problem.key(), H200.name, "", schedule or Schedule("f", ()))
        kernel = CubinKernel(self._cupy, launch, str(cubin), provenance)
        self.loaded.append(weakref.ref(kernel))
        self._kernels[problem] = kernel
        return kernel


@cache
def registered(path: HostLaunchTable) -> Any:
    """Return the operators under test. The result is cached, since a process can define these operators only once."""
    library = torch.library.Library(SPACE, "FRAGMENT")
    for name, schema in ops.SCHEMAS.items():
        library.define(name + schema)
        path.register(library, name, schema, "CPU", ops.ON_GPU[name], partial(ops.called, name))
    for problem in tile_problems():
        schema = tile_ops.schema(problem)
        library.define(problem.operator + schema)
        in_python, describe = (partial(function, problem) for function in (tile_ops.on_gpu, tile_ops.called))
        path.register(library, problem.operator, schema, "CPU", in_python, describe)
    return library, getattr(torch.ops, SPACE)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[HostLaunchTable, Driver]]:
    with stand_in(monkeypatch) as (path, driver):
        yield path, driver
        autosched.use(None)
        functions.forget()


def drawn(*shape: int, kind: Any = torch.float32) -> Any:
    return torch.ones(*shape).to(kind)


def launches(kernel: LoadedKernel, driver: Driver, tensors: dict[str, Any]) -> list[Launched]:
    """Return the kernel launches that the Python path makes for these tensors."""
    before = len(driver.from_python)
    kernel.launch_at([tensors[o.name].data_ptr() for o in (*kernel.inputs, *kernel.outputs)], torch)
    return driver.from_python[before:]


F16, BF16 = torch.float16, torch.bfloat16
OF_F32 = {"dtype": "f32", "out": "f32"}
LINEAR = {"a": "bf16", "b": "bf16", "order_b": "col", "epilogue": "bias+gelu"}


class Case(NamedTuple):
    """An operator to call, its problem, a function that makes arguments, and the number of schedules to test."""

    operator: str
    problem: Problem
    arguments: Callable[[], tuple[Any, ...]]
    schedules: int


CASES = {
    "matmul": Case(
        "matmul", Matmul(m=128, n=128, k=256), lambda: (drawn(128, 256, kind=F16), drawn(256, 128, kind=F16)), 40
    ),
    "linear": Case(
        "matmul",
        Matmul(m=64, n=192, k=128, **LINEAR),
        lambda: (drawn(64, 128, kind=BF16), drawn(192, 128, kind=BF16).T, drawn(192, kind=BF16), "gelu"),
        30,
    ),
    "softmax": Case("softmax", Softmax(rows=6, columns=512, **OF_F32), lambda: (drawn(2, 3, 512),), 12),
    "rmsnorm": Case(
        "rmsnorm", RmsNorm(rows=4, columns=512, eps=1e-6, **OF_F32), lambda: (drawn(4, 512), drawn(512), 1e-6), 8
    ),
    "layernorm": Case(
        "layernorm", LayerNorm(rows=4, columns=512, **OF_F32), lambda: (drawn(4, 512), drawn(512), drawn(512)), 8
    ),
    "reduce": Case(
        "reduce",
        Reduce(rows=64, columns=256, kind="max", axis="column", **OF_F32),
        lambda: (drawn(64, 256), "max", 0),
        12,
    ),
    "transpose": Case(
        "transpose", Transpose(rows=64, columns=48, batch=2, dtype="u32"), lambda: (drawn(2, 64, 48),), 8
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_launches_agree_with_the_python_path(case: str, host: tuple[HostLaunchTable, Driver], tmp_path: Path) -> None:
    path, driver = host
    operators = registered(path)[1]
    name, problem, arguments, count = CASES[case]
    names = ("a", "b", "bias") if name == "matmul" else ("x", "weight", "bias")
    covered = {"tensor maps": False, "workspaces": False, "steps": False, "clusters": False}
    for schedule in space_of(problem, H200).sample(count, 3):
        autosched.use(Fixed(tmp_path, driver, {problem: schedule}))
        before = path.counts()
        getattr(operators, name)(*arguments())  # the first call adds the kernel to the table
        driver.from_table.clear()
        call_arguments = arguments()
        result = getattr(operators, name)(*call_arguments)
        assert [after - b for after, b in zip(path.counts(), before, strict=True)] == [1, 1]
        kernel = functions.loaded_kernel(problem, -1)
        assert kernel is not None
        actual = list(driver.from_table)
        tensors = dict(zip(names, (t for t in call_arguments if isinstance(t, torch.Tensor)), strict=False))
        tensors["out"] = result
        assert actual == launches(kernel, driver, tensors)
        covered["tensor maps"] |= any(len(p) == 128 for launch in actual for p in launch.parameters)
        covered["workspaces"] |= kernel.by_stream
        covered["steps"] |= len(actual) > 1
        covered["clusters"] |= any(launch.cluster is not None for launch in actual)
    expected = {"matmul": ("tensor maps", "workspaces", "clusters"), "softmax": ("workspaces", "steps")}
    assert all(covered[feature] for feature in expected.get(case, ()))


def softmax_problem(columns: int = 512) -> Problem:
    return Softmax(rows=4, columns=columns, dtype="f32", out="f32")


def called_twice(operators: Any, *shape: int) -> Any:
    x = drawn(*(shape or (4, 512)))
    operators.softmax(x)
    return operators.softmax(x)


def test_tile_operators(host: tuple[HostLaunchTable, Driver], tmp_path: Path) -> None:
    path, driver = host
    operators = registered(path)[1]
    autosched.use(Fixed(tmp_path, driver, sampled=True))
    for name, problem in PROBLEMS.items():
        arguments, keywords = called(problem)
        operator = getattr(operators, name)
        operator(*arguments, **keywords)
        driver.from_table.clear()
        before = path.counts()
        results = outputs(operator(*arguments, **keywords))
        kernel = functions.loaded_kernel(problem, -1)
        assert kernel is not None, name
        assert path.counts()[0] == before[0] + 1, name
        output_operands = [o for o in problem.operands() if o.role == "output"]
        tensors = dict(zip((o.name for o in output_operands), results, strict=True))
        tensors |= dict(zip(problem.inputs, arguments, strict=True)) | keywords
        assert [(tuple(t.shape), t.is_contiguous()) for t in results] == [(o.shape, True) for o in output_operands]
        assert list(driver.from_table) == launches(kernel, driver, tensors), name


def test_results_have_type_and_layout_of_the_python_path(host: tuple[HostLaunchTable, Driver], tmp_path: Path) -> None:
    operators = registered(host[0])[1]
    autosched.use(Fixed(tmp_path, host[1]))
    for name, arguments in (
        ("reduce", (drawn(64, 256), "argmax")),
        ("matmul", (torch.ones(64, 128, dtype=torch.int8), torch.ones(64, 128, dtype=torch.int8).T)),
        ("transpose", (drawn(2, 64, 48),)),
        ("matvec", (drawn(256, kind=F16), drawn(64, 256, kind=F16))),
    ):
        first, second = (getattr(operators, name)(*arguments) for _ in range(2))
        assert (first.shape, first.dtype, first.stride()) == (second.shape, second.dtype, second.stride())
        assert first.data_ptr() != second.data_ptr()
    assert host[0].counts()[0] >= 4


def test_every_part_of_a_call_is_in_its_key(host: tuple[HostLaunchTable, Driver], tmp_path: Path) -> None:
    path, driver = host
    operators = registered(path)[1]
    autosched.use(Fixed(tmp_path, driver))
    x, weight, square = drawn(64, 512), drawn(512), drawn(64, 64, kind=F16)
    calls = [
        lambda: operators.softmax(x),
        lambda: operators.softmax(x.half()),
        lambda: operators.softmax(x.view(32, 1024)),
        lambda: operators.softmax(x.view(8, 8, 512)),
        lambda: operators.rmsnorm(x, weight),
        lambda: operators.rmsnorm(x, weight, 1e-3),
        lambda: operators.reduce(x, "sum"),
        lambda: operators.reduce(x, "mean"),
        lambda: operators.reduce(x, "sum", 0),
        lambda: operators.matmul(square, square),
        lambda: operators.matmul(square, square.T),
        lambda: operators.matmul(square, square, square[0]),
        lambda: operators.matmul(square, square, None, "relu"),
        lambda: operators.matmul(square, square, None, "gelu"),
    ]
    for call in calls:
        before = path.counts()
        call()
        assert path.counts() == (before[0], before[1] + 1)
    random.Random(0).shuffle(calls)
    for call in calls:
        before = path.counts()
        call()
        assert path.counts() == (before[0] + 1, before[1])


def test_many_entries(host: tuple[HostLaunchTable, Driver], tmp_path: Path) -> None:
    path, driver = host
    operators = registered(path)[1]
    autosched.use(Fixed(tmp_path, driver))
    x = drawn(4, 512)
    shapes = [(*(1,) * before, 4, *(1,) * after, 512) for before in range(20) for after in range(20)]
    for shape in shapes:
        operators.softmax(x.view(shape))
    before = path.counts()
    for shape in shapes:
        assert operators.softmax(x.view(shape)).shape == shape
    assert path.counts() == (before[0] + len(shapes), before[1])


class TestPython:
    """Calls that the C++ launch table leaves to Python."""

    def test_errors_agree_with_the_python_path(self, host: tuple[HostLaunchTable, Driver], tmp_path: Path) -> None:
        class Empty(Database):
            def kernel(self, *_: Any, **__: Any) -> LoadedKernel:
                raise NoSchedule("nothing is tuned")

        operators = registered(host[0])[1]
        autosched.use(Empty(None))
        with pytest.raises(NoSchedule, match="nothing is tuned"):
            operators.softmax(drawn(4, 512))
        autosched.use(Fixed(tmp_path, host[1]))
        with pytest.raises(ValueError, match="dense"):
            operators.softmax(drawn(4, 512)[:, ::2])
        with pytest.raises(ValueError, match="fit together"):
            operators.matmul(drawn(4, 8), drawn(9, 4))
        called_twice(operators)
        with pytest.raises(ValueError, match="multiple of 16 bytes"):
            operators.softmax(drawn(4 * 512 + 1)[1:].view(4, 512))
        with pytest.raises(RuntimeError, match="dtype"):  # torch checks the operator's schema
            operators.reduce(drawn(4, 512), torch.float32)

    def test_a_launch_that_the_driver_rejects(self, host: tuple[HostLaunchTable, Driver], tmp_path: Path) -> None:
        path, driver = host
        operators = registered(path)[1]
        autosched.use(Fixed(tmp_path, driver))
        called_twice(operators)
        driver.result = 719
        before = len(driver.from_python), path.counts()
        operators.softmax(drawn(4, 512))
        assert len(driver.from_python) > before[0] and path.counts() == (before[1][0], before[1][1] + 1)

    def test_a_database_that_appears(
        self, host: tuple[HostLaunchTable, Driver], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path, driver = host
        operators = registered(path)[1]
        without, opened = Fixed(tmp_path, driver), Fixed(tmp_path, driver)
        monkeypatch.setattr(functions, "_NO_DATABASE", without)
        monkeypatch.setattr(functions, "_opened", lambda _: opened)
        before = path.counts()
        called_twice(operators)
        assert path.counts() == (before[0] + 1, before[1] + 1) and len(without.loaded) == 1
        default = Path(functions.awaited_database() or "")
        default.parent.mkdir(parents=True)
        default.touch()
        called_twice(operators)
        assert path.counts() == (before[0] + 2, before[1] + 2) and len(opened.loaded) == 1

    def test_call_logs_have_every_call(self, host: tuple[HostLaunchTable, Driver], tmp_path: Path) -> None:
        operators = registered(host[0])[1]
        autosched.use(Fixed(tmp_path, host[1]))
        called_twice(operators)
        with call_log.log_calls(tmp_path / "calls.csv") as log:
            called_twice(operators)
            assert dict(log.counts) == {softmax_problem(): 2}

    def test_a_kernel_that_only_python_can_launch(
        self, host: tuple[HostLaunchTable, Driver], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path, driver = host
        queries: list[Any] = []
        monkeypatch.setattr(CubinKernel, "driver_steps", lambda *_: queries.append(0))
        operators = registered(path)[1]
        autosched.use(Fixed(tmp_path, driver))
        before = path.counts()
        for _ in range(3):
            operators.softmax(drawn(4, 512))
        assert path.counts() == (before[0], before[1] + 3) and len(driver.from_python) >= 3
        assert len(queries) == 1

    def test_tensors_of_too_many_dimensions(self, host: tuple[HostLaunchTable, Driver], tmp_path: Path) -> None:
        path, driver = host
        operators = registered(path)[1]
        autosched.use(Fixed(tmp_path, driver))
        square = drawn(64, 64, kind=F16).view((1,) * 60 + (64, 64))
        before = path.counts()
        for _ in range(2):
            assert operators.matmul(square, square).shape == square.shape
        assert path.counts() == (before[0], before[1] + 2)


class TestChanges:
    def test_another_database_has_other_kernels(self, host: tuple[HostLaunchTable, Driver], tmp_path: Path) -> None:
        path, driver = host
        operators = registered(path)[1]
        handles = set()
        databases = [Fixed(tmp_path, driver) for _ in range(3)]
        for database in databases:
            autosched.use(database)
            called_twice(operators)
            handles.add(driver.from_table[-1].function)
        assert len(handles) == 3

    def test_the_database_that_is_in_use_already(self, host: tuple[HostLaunchTable, Driver], tmp_path: Path) -> None:
        path, driver = host
        operators = registered(path)[1]
        fixed = Fixed(tmp_path, driver)
        autosched.use(fixed)
        called_twice(operators)
        before = path.counts()
        autosched.use(fixed)
        operators.softmax(drawn(4, 512))
        assert path.counts() == (before[0] + 1, before[1])

    def test_forgotten_kernels_are_unloaded(self, host: tuple[HostLaunchTable, Driver], tmp_path: Path) -> None:
        path, driver = host
        operators = registered(path)[1]
        fixed = Fixed(tmp_path, driver)
        autosched.use(fixed)
        called_twice(operators)
        (kernel,) = fixed.loaded
        gc.collect()
        assert kernel() is not None
        functions._loaded.clear()
        gc.collect()
        assert kernel() is not None  # the launch table still holds the kernel's function
        functions.forget()
        gc.collect()
        assert kernel() is None
        before = path.counts()
        called_twice(operators)
        assert path.counts() == (before[0] + 1, before[1] + 1) and len(fixed.loaded) == 2

    def test_an_entry_forgotten_during_a_miss_is_not_stored(
        self, host: tuple[HostLaunchTable, Driver], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path, driver = host
        operators = registered(path)[1]
        autosched.use(Fixed(tmp_path, driver))
        steps = CubinKernel.driver_steps

        def forgetful(self: CubinKernel, *arguments: Any) -> Any:
            functions.forget()
            return steps(self, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(CubinKernel, "driver_steps", forgetful)
            operators.softmax(drawn(4, 512))
        before = path.counts()
        operators.softmax(drawn(4, 512))
        assert path.counts() == (before[0], before[1] + 1)

    def test_no_kernel_is_launched_after_it_was_forgotten(
        self, host: tuple[HostLaunchTable, Driver], tmp_path: Path
    ) -> None:
        path, driver = host
        operators = registered(path)[1]
        launching: list[int] = []  # functions of the table whose launch is in progress
        failures: list[Exception] = []
        stop = threading.Event()

        def slow(launch: Launched, from_table: bool) -> None:
            if from_table:
                launching.append(launch.function)
                time.sleep(1e-4)  # lets other threads run
                launching.remove(launch.function)

        def call() -> None:
            x = drawn(4, 512)
            while not stop.is_set():
                try:
                    operators.softmax(x)
                except Exception as error:
                    failures.append(error)

        databases = [Fixed(tmp_path, driver) for _ in range(15)]
        autosched.use(databases[0])
        driver.on_launch = slow
        threads = [threading.Thread(target=call) for _ in range(3)]
        for thread in threads:
            thread.start()
        forgotten: set[int] = set()
        try:
            for old, new in itertools.pairwise(databases):
                called_twice(operators)
                autosched.use(new)
                launches_so_far = len(driver.from_table)
                forgotten.add(driver.handle(f"{id(old)} {softmax_problem().key()}".encode(), "f"))
                assert not forgotten.intersection(launching)
                called_twice(operators)
                assert not forgotten.intersection(launch.function for launch in driver.from_table[launches_so_far:])
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert not failures and len(forgotten) == len(databases) - 1


class TestStreams:
    def test_launches_go_to_the_current_stream(self, host: tuple[HostLaunchTable, Driver], tmp_path: Path) -> None:
        path, driver = host
        operators = registered(path)[1]
        autosched.use(Fixed(tmp_path, driver))
        called_twice(operators)
        for stream in (0, 5, 7):
            driver.stream = stream
            operators.softmax(drawn(4, 512))
            assert driver.from_table[-1].stream == stream

    def test_each_stream_and_thread_has_its_own_workspaces(
        self, host: tuple[HostLaunchTable, Driver], tmp_path: Path
    ) -> None:
        path, driver = host
        operators = registered(path)[1]
        problem = Matmul(m=128, n=128, k=256)
        split = next(s for s in space_of(problem, H200).sample(300, 1) if s.values.get("split_k", 1) != 1)
        autosched.use(Fixed(tmp_path, driver, {problem: split}))
        a, b = drawn(128, 256, kind=F16), drawn(256, 128, kind=F16)

        def parameters() -> list[tuple[bytes, ...]]:
            operators.matmul(a, b)
            before = len(driver.from_table)
            result = operators.matmul(a, b)
            result_pointer = np.uint64(result.data_ptr()).tobytes()
            return [tuple(p for p in launch.parameters if p != result_pointer) for launch in driver.from_table[before:]]

        assert functions.loaded_kernel(problem, -1) is None
        pointers = []
        for stream in (0, 5):
            driver.stream = stream
            pointers.append(parameters())
            assert parameters() == pointers[-1]
        kernel = functions.loaded_kernel(problem, -1)
        assert kernel is not None and kernel.by_stream
        driver.stream = 0
        thread = threading.Thread(target=lambda: pointers.append(parameters()))
        thread.start()
        thread.join()
        assert parameters() == pointers[0]
        assert len(pointers) == 3 and all(pointers)
        assert pointers[0] != pointers[1] != pointers[2] != pointers[0]

    def test_the_context_of_the_device_is_current_in_every_thread(
        self, host: tuple[HostLaunchTable, Driver], tmp_path: Path
    ) -> None:
        path, driver = host
        operators = registered(path)[1]
        autosched.use(Fixed(tmp_path, driver))
        called_twice(operators)
        depths = []

        def call() -> None:
            operators.softmax(drawn(4, 512))
            depths.append(driver.library.stand_in_contexts())

        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
        assert depths == [0] and driver.contexts and set(driver.contexts) == {0x1000 - 1}


def test_gradients_and_subclasses_use_the_python_path(host: tuple[HostLaunchTable, Driver], tmp_path: Path) -> None:
    path, driver = host
    operators = registered(path)[1]
    autosched.use(Fixed(tmp_path, driver))
    x = drawn(4, 512).requires_grad_()
    called_twice(operators)
    before = path.counts()
    assert isinstance(operators.softmax(torch.nn.Parameter(drawn(4, 512))), torch.Tensor)
    operators.softmax(x)
    assert path.counts()[0] == before[0] + 2
    with torch.inference_mode():
        assert operators.softmax(drawn(4, 512)).is_inference()
    with pytest.raises(NotImplementedError, match="Meta"):  # no fake implementation for meta tensors
        operators.softmax(drawn(4, 512).to("meta"))


@needs_nvrtc
class TestEmulated:
    """Launches of both paths, executed in the emulator on the memory of the tensors."""

    @staticmethod
    def emulate(driver: Driver, problem: Problem, schedule: Any) -> None:
        generated = generate(problem, schedule, H200)
        assert not generated.then and generated.launches == 1
        names = [getattr(argument, "operand", argument).name for argument in generated.arguments]

        def run(launch: Launched, _: bool) -> None:
            starts = {name: int.from_bytes(p[:8], "little") for name, p in zip(names, launch.parameters, strict=True)}
            arrays = {
                o.name: np.ctypeslib.as_array((ctypes.c_ubyte * o.bytes).from_address(starts[o.name]))
                for o in problem.operands()
            }
            stored = {o.name: arrays[o.name].view(o.dtype.storage).reshape(o.shape) for o in problem.operands()}
            emulation = emulate(generated, {name: array for name, array in stored.items() if name != "out"})
            assert emulation.ok, emulation.reason
            stored["out"][...] = emulation.outputs["out"]

        driver.on_launch = run

    @pytest.mark.parametrize("case", ["matmul", "softmax"])
    def test_results_agree_with_the_formula(
        self, case: str, host: tuple[HostLaunchTable, Driver], tmp_path: Path
    ) -> None:
        path, driver = host
        operators = registered(path)[1]
        name, problem = {
            "matmul": ("matmul", Matmul(m=64, n=64, k=128, a="bf16", b="bf16", out="bf16", order_b="col")),
            "softmax": ("softmax", Softmax(rows=4, columns=512, **OF_F32)),
        }[case]
        template = "wgmma_matmul" if case == "matmul" else "row_reduction"
        schedule = next(
            s
            for s in space_of(problem, H200).sample(300, 1)
            if s.template == template and s.values.get("split_k", 1) == 1 and not has_workspace(problem, s)
        )
        autosched.use(Fixed(tmp_path, driver, {problem: schedule}))
        self.emulate(driver, problem, schedule)
        for seed in range(2):
            generator = torch.Generator().manual_seed(seed)
            if case == "matmul":
                call_arguments = (
                    torch.randn(64, 128, generator=generator).bfloat16(),
                    torch.randn(64, 128, generator=generator).bfloat16().T,
                )
            else:
                call_arguments = (torch.randn(4, 512, generator=generator),)
            result = getattr(operators, name)(*call_arguments)
            assert torch.allclose(result, getattr(formulas, name)(*call_arguments), rtol=2e-2, atol=2e-2)
        assert len(driver.from_python) == len(driver.from_table) == 1
        assert driver.from_python[0].parameters != driver.from_table[0].parameters


def has_workspace(problem: Problem, schedule: Any) -> bool:
    return any(o.role == "workspace" for o in generate(problem, schedule, H200).operands)
