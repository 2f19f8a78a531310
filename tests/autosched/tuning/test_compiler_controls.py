"""Searches with compiler controls, with the real compiler and simulated times."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from autosched import KernelSpec
from autosched.programs import loading
from autosched.samplers.compiler_controls import ADVISER
from autosched.tuning.backends.estimators import AnalyticEstimator
from autosched.tuning.options import TuneOptions
from autosched.tuning.result import TuneResult
from autosched.tuning.tune import tune
from measurements.compiler.nvrtc import NvrtcMissing, toolchain_version
from measurements.compiler.pool import Compiled, CompilePool
from measurements.compiler.ptxas import why_no_controls
from measurements.runners.base import Candidate
from measurements.store.store import Store
from measurements.trials.measurement import Resources, Status
from measurements.trials.trial import Trial
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Softmax
from search_spaces.templates.compiler_controls import MAX_REGISTERS, NAMES, CompilerControls, has_controls, plain

try:
    WHY = why_no_controls(toolchain_version())
except NvrtcMissing as missing:
    WHY = str(missing)
PROGRAMS = Path(__file__).parents[3] / "examples" / "programs"
new_compiler = pytest.mark.skipif(WHY != "", reason=WHY)

SUMS = "".join(f"s[{i}] = s[{i}] * s[{(i * 7 + 3) % 40}] + s[{(i + 11) % 40}];" for i in range(40))
SOURCE = f"""extern "C" __global__ void __launch_bounds__(B) sums(float* out, const float* a) {{
    float s[40];
    for (int i = 0; i < 40; ++i) s[i] = a[i * B + threadIdx.x];
    for (int n = 0; n < 3; ++n) {{ {SUMS} }}
    for (int i = 0; i < 40; ++i) out[i * B + threadIdx.x] = s[i];
}}"""


@pytest.fixture
def fewer_registers_are_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulate times that grow with the registers of the compiled kernel."""

    def seconds(self: Any, candidate: Candidate, resources: Resources, program: Compiled | None = None) -> float:
        return 1e-6 * (resources.registers + candidate.kernel.threads / 1024)

    monkeypatch.setattr(AnalyticEstimator, "__call__", seconds)


def users_kernel() -> Problem:
    return KernelSpec(
        SOURCE,
        "sums",
        name="register_sums",
        parameters={"B": [128, 256]},
        sizes={"n": 40},
        grid="1",
        block="B",
        arguments=[
            {"name": "out", "kind": "output", "dtype": "f32", "shape": "n * 256"},
            {"name": "a", "kind": "input", "dtype": "f32", "shape": "n * 256"},
        ],
        reference=lambda a: a,
    ).problem()


def searched(problem: Problem, db: Path, **options: Any) -> TuneResult:
    fields = {"device": "h100", "backend": "estimate", "verify": False, "progress": False, "workers": 1, **options}
    return tune(problem, database=db, **fields)


def controlled(trials: Sequence[Trial]) -> list[Trial]:
    return [trial for trial in trials if has_controls(trial.schedule)]


@new_compiler
@pytest.mark.usefixtures("fewer_registers_are_faster")
class TestSearch:
    def test_the_last_tenth_varies_the_controls_and_a_cap_wins(self, tmp_path: Path) -> None:
        problem = users_kernel()
        result = searched(problem, tmp_path / "a.db", trials=20, compiler_controls=True)
        varied = controlled(result.trials)
        assert len(varied) == 2
        assert result.trials[-2:] == tuple(varied)
        assert all(trial.sampler == ADVISER for trial in varied)
        assert all(trial.toolchain == toolchain_version() for trial in varied)
        assert result.best is not None
        cap = result.best.schedule.values[MAX_REGISTERS]
        assert result.best.measurement.resources is not None
        assert result.best.measurement.resources.registers <= int(cap)
        uncapped = next(t for t in result.trials if t.schedule == plain(result.best.schedule))
        assert uncapped.measurement.resources is not None
        assert uncapped.measurement.resources.registers > int(cap)

    def test_controls_are_off_by_default_but_stored_controls_are_kept(self, tmp_path: Path) -> None:
        problem, db = users_kernel(), tmp_path / "a.db"
        best = searched(problem, db, trials=20, compiler_controls=True).best
        again = searched(problem, db, trials=4)
        assert not controlled(again.trials)
        assert again.best is not None and best is not None
        assert again.best.schedule == best.schedule

    def test_a_call_is_launched_with_the_controls_of_its_schedule(self, tmp_path: Path) -> None:
        problem, db = users_kernel(), tmp_path / "a.db"
        best = searched(problem, db, trials=20, compiler_controls=True).best
        copied = tmp_path / "copy.db"
        with Store.open(db) as store, Store.open(copied) as other:
            other.extend([Trial.from_json(trial.to_json()) for trial in store.trials(problem, "h100")])
        assert best is not None
        kernel_template = template(best.schedule.template)
        with Store.open(copied) as store:
            stored = store.best(problem, "h100")
        assert stored is not None
        kernel = kernel_template.kernel(problem, stored.schedule, device("h100"))
        with CompilePool(workers=1) as pool:
            compiled = pool.compile(kernel, device("h100").arch)
        assert isinstance(compiled, Compiled)
        assert compiled.cached
        assert compiled.resources == best.measurement.resources

    def test_a_control_file_is_tried_first_and_its_failure_is_a_trial(self, tmp_path: Path) -> None:
        file = tmp_path / "broken.acf"
        file.write_bytes(b"hello")
        result = searched(users_kernel(), tmp_path / "a.db", trials=10, control_files=[file])
        (trial,) = controlled(result.trials)
        assert CompilerControls.of(trial.schedule).file is not None
        assert trial.status is Status.COMPILE_ERROR

    @pytest.mark.parametrize("kind", ["template", "tile program"])
    def test_generated_kernels_are_searched_with_controls(self, kind: str, tmp_path: Path) -> None:
        problem: Any = Softmax(rows=64, columns=512)
        if kind == "tile program":
            problem = loading.problem(loading.load_program(f"{PROGRAMS}/softmax_rows.py:row_softmax"), m=64, n=512)
        result = searched(problem, tmp_path / "a.db", trials=10, compiler_controls=True)
        (trial,) = controlled(result.trials)
        assert set(trial.schedule) & set(NAMES)
        assert trial.ok


class TestRefusals:
    def test_an_older_compiler_is_rejected_in_one_line(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("measurements.compiler.pool.toolchain_of", lambda options: "nvrtc 13.0.88")
        with pytest.raises(ValueError, match=r"^.*13\.3.*$"):
            searched(users_kernel(), tmp_path / "a.db", trials=4, compiler_controls=True)
        assert not (tmp_path / "a.db").exists()

    def test_a_missing_control_file_is_rejected(self, tmp_path: Path) -> None:
        with pytest.raises(ValueError, match=r"none\.acf"):
            TuneOptions(control_files=[tmp_path / "none.acf"])

    def test_control_files_imply_the_controls(self, tmp_path: Path) -> None:
        file = tmp_path / "a.acf"
        file.write_bytes(b"x")
        assert TuneOptions(control_files=str(file)).compiler_controls
        assert not TuneOptions().compiler_controls
