import ctypes
import dataclasses
import json
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

import instant_compiler
import numpy as np
import pytest
from fake_cupy import FakeCupy
from kernels import generate

from autosched.dispatch import database as database_module
from autosched.dispatch import library_kernel, resolve, resolve_cache
from autosched.dispatch.database import Database, NoSchedule, NotTuned, StaleSchedule
from autosched.dispatch.kernel import LoadedKernel, RuntimeUnavailable
from autosched.user_kernels.user_kernel import KernelSpec as UserKernel
from measurements.compiler.pool import CompileFailure, CompilePool
from measurements.runners.cuda import runner as cuda
from measurements.runners.cuda.libraries.cublas import Gemm
from measurements.store.store import Store, StoreError
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import LIBRARY_SCHEDULE
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.row_reduction import Softmax
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.dependent import WAIT
from search_spaces.tile_operators.quantized_matmul import QuantizedMatmul

H200 = device("h200")
EXAMPLES = Path(__file__).parents[3] / "examples"
PROBLEM = Matmul(m=96, n=80, k=64)


@cache
def schedules() -> list[Schedule]:
    return template("matmul").space(PROBLEM, H200).sample(3, 5)


def make_trial(seconds: float, on: str = "h200", which: int = 0, digest: str | None = None) -> Trial:
    return Trial(
        problem_key=PROBLEM.key(),
        schedule=schedules()[which],
        device=on,
        fingerprint="{}",
        template_version=template("matmul").version,
        space_version="s",
        kernel_digest=digest or generate(PROBLEM, schedules()[which], H200).digest,
        measurement=Measurement(Status.OK, Provenance.ESTIMATED, timing=Timing.estimate(seconds)),
        toolchain="",
        driver="",
        autosched_version="0.1.0",
        created=datetime.now(UTC),
        sampler="random",
        seed=0,
    )


def written(path: Path, *trials: Trial) -> Database:
    with Store.open(path / "best.db") as store:
        for trial in trials:
            store.append(trial)
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
        database = written(tmp_path, make_trial(2e-6, "a100"), make_trial(1e-6, "a100", 1))
        best = database.best(PROBLEM)
        assert best is not None and best.seconds == 1e-6
        assert database.best(PROBLEM, "h200") is None
        assert database.best(PROBLEM, H200) is None

    def test_devices_are_not_compared(self, tmp_path: Path, no_gpu: None) -> None:
        database = written(tmp_path, make_trial(2e-6, "a100"), make_trial(1e-6, "h200"))
        with pytest.raises(NoSchedule, match="a100, h200"):
            database.best(PROBLEM)
        best = database.best(PROBLEM, "a100")
        assert best is not None and best.seconds == 2e-6

    def test_the_gpu_of_this_machine_is_preferred(self, tmp_path: Path, an_h200: None) -> None:
        database = written(tmp_path, make_trial(1e-6, "a100"), make_trial(2e-6, "h200"))
        best = database.best(PROBLEM)
        assert best is not None and best.device == "h200"

    def test_best_returns_none_without_a_trial(self, tmp_path: Path, no_gpu: None) -> None:
        assert written(tmp_path).best(PROBLEM) is None
        assert written(tmp_path, make_trial(1e-6)).best(Matmul(m=97, n=80, k=64)) is None

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((None,), "expected a problem"),
            ((PROBLEM, "h300"), "unknown device 'h300'.*h200.*best.db holds a100, mine"),
            ((PROBLEM, 5), "a device name must be a string, not 5"),
            ((PROBLEM, "h200", "guessed"), "unknown provenance 'guessed': use one of measured, replayed, estimated"),
        ],
    )
    def test_best_rejects_invalid_queries(
        self, tmp_path: Path, no_gpu: None, arguments: tuple[Any, ...], message: str
    ) -> None:
        database = written(tmp_path, make_trial(1e-6, "a100"), make_trial(1e-6, "mine"))
        with pytest.raises(ValueError, match=message) as caught:
            database.best(*arguments)
        assert "\n" not in str(caught.value)

    def test_common_device_names_are_accepted(self, tmp_path: Path, no_gpu: None) -> None:
        database = written(tmp_path, make_trial(1e-6, "h200"), make_trial(2e-6, "mine"))
        for name, seconds in (("H200", 1e-6), ("mine", 2e-6)):
            best = database.best(PROBLEM, name, "estimated")
            assert best is not None and best.seconds == seconds
        assert database.best(PROBLEM, "mine", "measured") is None

    def test_a_missing_database_is_rejected_and_not_created(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="there is no database"):
            Database(tmp_path / "none.db")
        assert list(tmp_path.iterdir()) == []


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeCupy:
    """Return a fake cupy with an H200, and a fake compiler."""
    fake = FakeCupy()
    monkeypatch.setitem(sys.modules, "cupy", fake)
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))
    instant = partial(CompilePool, worker_module="instant_compiler", python_path=[instant_compiler.HERE])
    monkeypatch.setattr(resolve, "CompilePool", instant)
    return fake


SMALL = Softmax(rows=4, columns=64)
NEAR = Softmax(rows=8, columns=64)


def small(problem: Softmax, **changes: Any) -> Trial:
    schedule = changes.pop("schedule", template("row_reduction").space(SMALL, H200).sample(1, 5)[0])
    digest = generate(problem, schedule, H200).digest
    version = template("row_reduction").version
    trial = dataclasses.replace(make_trial(1e-6, digest=digest), template_version=version, schedule=schedule)
    return dataclasses.replace(trial, problem_key=problem.key(), **changes)


class TestKernel:
    def test_without_cupy_and_cuda_core(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "cupy", None)
        monkeypatch.setitem(sys.modules, "cuda.core", None)
        with pytest.raises(
            RuntimeUnavailable, match=r"kernels cannot be called without cupy .* or cuda.core .*: pip install"
        ):
            written(tmp_path, make_trial(1e-6)).kernel(PROBLEM)

    def test_without_a_gpu(self, tmp_path: Path, cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse() -> None:
            raise RuntimeError("cudaErrorNoDevice: no CUDA-capable device is detected")

        monkeypatch.setattr(cupy.cuda, "Device", refuse)
        monkeypatch.setattr(ctypes, "CDLL", lambda name: name)
        with pytest.raises(RuntimeUnavailable, match=r"kernels need a GPU.*no CUDA-capable"):
            written(tmp_path, make_trial(1e-6)).kernel(PROBLEM)

    def test_without_a_driver(self, tmp_path: Path, cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse() -> None:
            raise RuntimeError("CUDA driver version is insufficient for CUDA runtime version")

        def missing(name: str) -> None:
            raise OSError(f"{name}: cannot open shared object file")

        monkeypatch.setattr(cupy.cuda, "Device", refuse)
        monkeypatch.setattr(ctypes, "CDLL", missing)
        with pytest.raises(RuntimeUnavailable, match="no NVIDIA driver") as unavailable:
            written(tmp_path, make_trial(1e-6)).kernel(PROBLEM)
        assert "insufficient" not in str(unavailable.value)

    def test_a_tuned_kernel_is_launched(self, tmp_path: Path, cupy: FakeCupy) -> None:
        kernel = written(tmp_path, small(SMALL)).kernel(SMALL)
        assert (kernel.provenance.kind, kernel.provenance.stale, kernel.provenance.warning) == ("exact", (), "")
        x = cupy.zeros((4, 64), "f2")
        out = kernel(x)
        (launch,) = cupy.launches
        expected = generate(SMALL, small(SMALL).schedule, H200)
        assert (launch.cubin.decode(), launch.grid, launch.block) == (expected.source, expected.grid, expected.block)
        assert launch.parameters[:2] == (x.data.ptr, out.data.ptr)

    def test_weights_are_packed_for_the_kernel(self, tmp_path: Path, cupy: FakeCupy) -> None:
        problem = QuantizedMatmul(m=5, n=20, k=128, layout="fragments")
        with pytest.warns(NotTuned):
            kernel = written(tmp_path, small(SMALL)).kernel(problem)
        w = np.arange(problem.n * problem.k // 8, dtype=np.int32).reshape(problem.n, -1)
        assert np.array_equal(kernel.pack(w), problem.pack(w))
        with pytest.raises(ValueError, match="w must be"):
            kernel.pack(w[:3])
        with pytest.raises(ValueError, match="unpacked"):
            written(tmp_path, small(SMALL)).kernel(SMALL).pack(w)

    def test_a_kernel_for_dependent_launches(
        self, tmp_path: Path, cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        bindings = pytest.importorskip("cuda.bindings.driver")
        allowed: list[list[int]] = []

        def launch(config: Any, *_: Any) -> tuple[Any]:
            allowed.append([a.value.programmaticStreamSerializationAllowed for a in config.attrs])
            return (bindings.CUresult.CUDA_SUCCESS,)

        monkeypatch.setattr(bindings, "cuLaunchKernelEx", launch)
        database = written(tmp_path, small(SMALL))
        x = cupy.zeros((4, 64), "f2")
        for _ in range(2):  # the second kernel comes from the cache
            database.kernel(SMALL, dependent=True)(x)
        assert allowed == [[1], [1]] and not cupy.launches
        database.kernel(SMALL)(x)
        (plain,) = cupy.launches
        assert WAIT not in plain.cubin.decode() and len(allowed) == 2

    def test_an_untuned_problem_warns_once(self, tmp_path: Path, cupy: FakeCupy) -> None:
        database = written(tmp_path, small(NEAR))
        with pytest.warns(NotTuned, match="nearest trial: rows 8 instead of 4; .*tune this problem") as record:
            kernel = database.kernel(SMALL)
        assert len(record) == 1 and "\n" not in str(record[0].message)
        assert kernel.provenance.kind in ("nearest", "model")
        assert database.kernel(SMALL).provenance == kernel.provenance
        assert kernel(cupy.zeros((4, 64), "f2")).shape == (4, 64)

    def test_exact_rejects_a_nearby_trial(self, tmp_path: Path, cupy: FakeCupy) -> None:
        with pytest.raises(NoSchedule, match=r"best.db has no usable trial .* rows 8 instead of 4; tune"):
            written(tmp_path, small(NEAR)).kernel(SMALL, exact=True)

    def test_a_changed_environment_is_reported(self, tmp_path: Path, cupy: FakeCupy) -> None:
        measured = Measurement(Status.OK, Provenance.MEASURED, timing=Timing.of([1e-6] * 3))
        old = small(SMALL, measurement=measured, fingerprint='{"cuda":"12080"}', toolchain="nvrtc 12.8.93")
        with pytest.warns(
            StaleSchedule, match=r"compiler nvrtc 12.8.93 to nvrtc .*, CUDA 12080 to 13000; tune this problem"
        ):
            kernel = written(tmp_path, old).kernel(SMALL)
        assert kernel.provenance.kind == "exact" and len(kernel.provenance.stale) == 2

    def test_a_trial_that_no_longer_compiles_is_skipped(self, tmp_path: Path, cupy: FakeCupy) -> None:
        broken = small(SMALL, schedule=dataclasses.replace(small(SMALL).schedule))
        database = written(tmp_path, broken)
        digest = generate(SMALL, broken.schedule, H200).digest
        compile_one = CompilePool.compile

        def failing(pool: CompilePool, kernel: GeneratedKernel, arch: str) -> Any:
            bad = kernel.digest == digest
            return CompileFailure(Status.COMPILE_ERROR, "no") if bad else compile_one(pool, kernel, arch)

        with pytest.MonkeyPatch.context() as patch, pytest.warns(NotTuned, match=r"cannot be used any more \(no\)"):
            patch.setattr(CompilePool, "compile", failing)
            assert database.kernel(SMALL).provenance.kind == "model"

    def test_a_folder_for_cubins_that_cannot_be_written(
        self, tmp_path: Path, cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "file").write_text("in the way")
        monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "file"))
        kernel = written(tmp_path, small(SMALL)).kernel(SMALL)
        assert kernel(cupy.zeros((4, 64), "f2")).shape == (4, 64)

    def test_the_database_is_not_modified(self, tmp_path: Path, cupy: FakeCupy) -> None:
        database = written(tmp_path, small(SMALL))
        before = {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.glob("best.db*")}
        database.kernel(SMALL)
        assert {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in tmp_path.glob("best.db*")} == before

    def test_the_library_is_called_if_it_won(
        self, tmp_path: Path, cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls: list[tuple[Any, ...]] = []

        def multiplier(cp: Any, stream: Any, gemm: Any) -> Any:
            return lambda *addresses: calls.append((stream.ptr, gemm, *addresses))

        monkeypatch.setattr(library_kernel, "library_version", lambda: "cublas 13.2.0")
        monkeypatch.setattr(library_kernel, "library_multiplier", multiplier)
        problem = Matmul(m=8, n=16, k=32, order_b="col")
        won = dataclasses.replace(
            make_trial(1e-6), problem_key=problem.key(), schedule=LIBRARY_SCHEDULE, kernel_digest=None, toolchain=""
        )
        kernel = written(tmp_path, won).kernel(problem)
        assert (kernel.provenance.kind, kernel.provenance.warning) == ("library", "")
        a, b, out = (cupy.zeros(shape, "f2") for shape in ((8, 32), (16, 32), (8, 16)))
        assert kernel(a, b, out=out) is out
        with cupy.cuda.Stream(9):
            assert kernel.bind(a, b, out)() is out
        gemm = Gemm(8, 16, 32, 1, "f16", "f16", b_transposed=True)
        addresses = (a.data.ptr, b.data.ptr, out.data.ptr)
        assert calls == [(0, gemm, *addresses), (9, gemm, *addresses)]
        with pytest.raises(ValueError, match="a must be of type f16, not float32"):
            kernel(cupy.zeros((8, 32), "f4"), b)

    def test_a_users_kernel(self, tmp_path: Path, cupy: FakeCupy) -> None:
        """The call takes arguments in the order of the entry function, including the array c and a scalar."""
        problem = UserKernel.from_file(EXAMPLES / "vector_add" / "vector_add.toml").problem(n=1000)
        kernel_template = template(problem.operator)
        schedule = kernel_template.space(problem, H200).sample(1, 2)[0]
        compiled = kernel_template.kernel(problem, schedule, H200)
        trial = make_trial(1e-6, digest=compiled.digest)
        trial = dataclasses.replace(
            trial, problem_key=problem.key(), schedule=schedule, template_version=kernel_template.version
        )
        kernel = written(tmp_path, trial).kernel(problem)
        assert (kernel.provenance.kind, kernel.provenance.schedule) == ("exact", schedule)
        a, b, c = (cupy.zeros(1000, "f4") for _ in range(3))
        assert kernel(a, b, out=c) is c
        assert kernel.bind(b=b, a=a, out=c)() is c
        for launch in cupy.launches:
            assert launch.cubin.decode() == compiled.source
            assert (launch.grid, launch.block, launch.shared) == (compiled.grid, compiled.block, 0)
            assert launch.parameters[:3] == (c.data.ptr, a.data.ptr, b.data.ptr)
            assert (launch.parameters[3].dtype, launch.parameters[3].tolist()) == (np.int32, [1000])
        with pytest.raises(ValueError, match=r"b must have the shape \(1000,\) in memory, not \(999,\)"):
            kernel(a, b[:999])


class TestNextProcess:
    """Look-ups that an earlier process has cached."""

    @pytest.fixture
    def path(self, tmp_path: Path, cupy: FakeCupy) -> Path:
        written(tmp_path, small(SMALL)).kernel(SMALL)
        return tmp_path / "best.db"

    @pytest.fixture
    def offline(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make the test fail if a database is opened or a compiler is started."""
        monkeypatch.setattr(Store, "open", lambda *_, **__: pytest.fail("the database was opened"))
        monkeypatch.setattr(resolve, "CompilePool", lambda *_, **__: pytest.fail("a compiler was started"))

    def test_a_cached_kernel_needs_no_database_and_no_compiler(self, path: Path, cupy: FakeCupy, offline: None) -> None:
        kernel = Database(path).kernel(SMALL)
        kernel(cupy.zeros((4, 64), "f2"))
        expected = generate(SMALL, small(SMALL).schedule, H200)
        (launch,) = cupy.launches
        assert (launch.cubin.decode(), launch.grid, launch.block) == (expected.source, expected.grid, expected.block)
        assert (kernel.provenance.kind, kernel.provenance.database) == ("exact", str(path))

    def test_a_library_choice_is_cached(
        self, tmp_path: Path, cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
    ) -> None:
        monkeypatch.setattr(library_kernel, "library_version", lambda: "cublas 13.2.0")
        problem = Matmul(m=8, n=16, k=32)
        won = dataclasses.replace(
            make_trial(1e-6), problem_key=problem.key(), schedule=LIBRARY_SCHEDULE, kernel_digest=None, toolchain=""
        )
        first = written(tmp_path, won).kernel(problem)
        request.getfixturevalue("offline")
        assert Database(tmp_path / "best.db").kernel(problem).provenance == first.provenance

    def test_a_new_trial_invalidates_the_cache(self, path: Path, cupy: FakeCupy) -> None:
        other = template("row_reduction").space(SMALL, H200).sample(2, 9)[1]
        with Store.open(path) as store:
            faster = Measurement(Status.OK, Provenance.MEASURED, timing=Timing.of([1e-9]))
            digest = generate(SMALL, other, H200).digest
            store.append(small(SMALL, schedule=other, kernel_digest=digest, measurement=faster))
            open_elsewhere = Database(path).kernel(SMALL).provenance
        assert open_elsewhere.schedule == Database(path).kernel(SMALL).provenance.schedule == other

    def test_another_driver_invalidates_the_cache(
        self, path: Path, cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        openings: list[str] = []
        opened = Store.open
        monkeypatch.setattr(Store, "open", lambda *a, **k: (openings.append("again"), opened(*a, **k))[1])
        Database(path).kernel(SMALL)
        assert openings == []
        monkeypatch.setitem(sys.modules, "cupy", FakeCupy(runtime=13010))
        Database(path).kernel(SMALL)
        assert openings == ["again"]

    def test_another_compiler_invalidates_the_cache(
        self, path: Path, tmp_path: Path, cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        openings: list[str] = []
        opened = Store.open
        monkeypatch.setattr(Store, "open", lambda *a, **k: (openings.append("again"), opened(*a, **k))[1])
        for name in ("numpy-99.0.dist-info", "nvidia_cuda_nvrtc-99.0.dist-info"):
            (tmp_path / "packages" / name).mkdir(parents=True)
            monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path / "packages")])
            resolve_cache._compilers.cache_clear()
            Database(path).kernel(SMALL)
            assert bool(openings) == name.startswith("nvidia"), name
        resolve_cache._compilers.cache_clear()

    def test_a_cached_kernel_imports_no_unused_module(self) -> None:
        code = (
            "import sys, numpy; before = set(sys.modules)\n"
            "from autosched.dispatch import database, kernel, resolve_cache\n"
            "print(sorted({'difflib', 'email.parser', 'sqlalchemy', 'statistics'} & (set(sys.modules) - before)))"
        )
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert run.stdout.strip() == "[]", run.stderr

    @pytest.mark.parametrize("damage", [b"", b"{}", b'{"provenance": {}, "launch": null}', b"[1]", b"\xff"])
    def test_a_damaged_cache_entry_is_rewritten(
        self, path: Path, tmp_path: Path, cupy: FakeCupy, damage: bytes
    ) -> None:
        (entry,) = (tmp_path / "cache" / "resolved").glob("*/*.json")
        good = entry.read_bytes()
        entry.write_bytes(damage)
        assert Database(path).kernel(SMALL).provenance.kind == "exact"
        assert entry.read_bytes() == good

    def test_a_damaged_or_missing_cubin_is_compiled_again(self, path: Path, tmp_path: Path, cupy: FakeCupy) -> None:
        (cubin,) = (tmp_path / "cache" / "cubin" / "cubins").glob("*.cubin")
        good = cubin.read_bytes()
        for spoil in (lambda: cubin.write_bytes(b"other"), cubin.unlink):
            spoil()
            Database(path).kernel(SMALL)
            assert cubin.read_bytes() == good

    def test_a_users_kernel_may_have_changed_and_is_looked_up_again(self, tmp_path: Path, cupy: FakeCupy) -> None:
        problem = UserKernel.from_file(EXAMPLES / "vector_add" / "vector_add.toml").problem(n=1000)
        with pytest.warns(NotTuned):
            written(tmp_path).kernel(problem)
        assert not list((tmp_path / "cache").glob("resolved/*/*.json"))

    def test_concurrent_processes_use_a_read_only_database_of_a_package(self, tmp_path: Path, cupy: FakeCupy) -> None:
        """No process imports slow modules or writes into the package."""
        package = tmp_path / "site" / "tuned_for_us"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text("")
        written(tmp_path, small(SMALL))
        (tmp_path / "best.db").rename(package / "best.db")
        first = Database(package / "best.db").kernel(SMALL)
        before = {path: path.stat().st_mtime_ns for path in package.rglob("*")}
        for path in (package / "best.db", package):
            path.chmod(path.stat().st_mode & 0o555)
        script = Path(instant_compiler.HERE) / "kernel_process.py"
        command = [sys.executable, "-B", str(script), package.name, str(package.parent)]
        processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
        reports = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
        assert reports[0] == reports[1] == reports[2]
        assert reports[0]["imported"] == []
        assert reports[0]["provenance"] == json.loads(json.dumps(first.provenance.to_json()))
        assert {path: path.stat().st_mtime_ns for path in package.rglob("*")} == before


class TestLookUp:
    def test_without_a_gpu(self, tmp_path: Path, no_gpu: None) -> None:
        database = written(tmp_path, small(SMALL))
        answer = database.look_up(SMALL)
        assert answer.kernel == generate(SMALL, small(SMALL).schedule, H200)
        assert database.look_up(SMALL, "H200").provenance == answer.provenance
        with pytest.raises(
            NoSchedule, match=r"has no usable trial of this problem on h100: .* device h200 instead of h100"
        ):
            database.look_up(SMALL, "h100", exact=True)
        with pytest.raises(NoSchedule, match="name the device"):
            database.look_up(NEAR)


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
        trial = dataclasses.replace(
            make_trial(1e-6, gpu.name),
            problem_key=problem.key(),
            schedule=schedule,
            kernel_digest=generate(problem, schedule, gpu).digest,
        )
        kernel = written(tmp_path, trial).kernel(problem)
        assert isinstance(kernel, LoadedKernel)
        inputs = problem.random_inputs(3)
        a, b = cupy.asarray(inputs["a"]), cupy.asarray(inputs["b"])
        expected, allowed = problem.reference(inputs)["out"], problem.tolerance(inputs)["out"]
        for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
            cupy.cuda.get_current_stream().synchronize()
            with stream:
                for _ in range(3):  # repeated, as each launch must restore its workspaces
                    out = kernel(a, b=b)
                    actual = cupy.asnumpy(out).astype(np.float64)
                    assert actual.shape == expected.shape
                    assert (np.abs(actual - expected) <= allowed).all()
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
        trial = dataclasses.replace(
            make_trial(1e-6, gpu.name),
            problem_key=problem.key(),
            schedule=schedule,
            kernel_digest=generate(problem, schedule, gpu).digest,
        )
        kernel = written(tmp_path, trial).kernel(problem)
        kind = torch.float16 if dtype == "f16" else torch.bfloat16
        a, b = (torch.randn(shape, device="cuda").to(kind) for shape in ((96, 64), (64, 80)))
        torch.cuda.synchronize()  # synchronise, since another stream does not wait for the default stream's writes
        with torch.cuda.stream(torch.cuda.Stream()):
            out = kernel(a, b)
        torch.cuda.synchronize()
        assert out.dtype is kind and out.shape == (96, 80)
        assert torch.allclose(out.float(), a.float() @ b.float(), atol=0.2, rtol=0.02)


def test_the_repr_shows_the_path(tmp_path: Path) -> None:
    Store.open(tmp_path / "best.db").close()
    assert repr(Database(tmp_path / "best.db")) == f"Database({str(tmp_path / 'best.db')!r})"


def test_the_module_does_not_load_cupy() -> None:
    assert not hasattr(database_module, "cupy")
