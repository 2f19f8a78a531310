"""``examples/ship_tuned_kernels.py`` without a GPU. The complete program with all its processes runs nightly."""

from __future__ import annotations

import importlib.util
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import forked_python
import pytest
from needs import cpp_compiler

from autosched.cli import main
from autosched.dispatch.database import NoSchedule
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device

SCRIPT = Path(__file__).parents[2] / "examples" / "ship_tuned_kernels.py"


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("ship_tuned_kernels", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_shipped_kernels_are_emulated_and_correct(
    example: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The example's commands run in this process, since starting three processes is slow."""
    cpp_compiler()
    monkeypatch.setattr(example, "run", lambda python, dash, module, *arguments: main(arguments))
    path, problem, row, its = tmp_path / "best.db", example.PROBLEM, device("h200"), template("row_reduction")
    schedule = its.space(problem, row).sample(1, 4)[0]
    trial = Trial(
        problem_key=problem.key(),
        schedule=schedule,
        device=row.name,
        fingerprint="{}",
        template_version=its.version,
        space_version="",
        kernel_digest=its.kernel(problem, schedule, row).digest,
        measurement=Measurement(Status.OK, Provenance.ESTIMATED, timing=Timing.estimate(1e-6)),
        toolchain="",
        driver="",
        autosched_version="",
        created=datetime.now(UTC),
        sampler="random",
        seed=0,
    )
    with Store.open(path) as store:
        store.append(trial)
    example.ship(path, tmp_path / "configs", tmp_path / "shipped.db")
    assert json.loads((tmp_path / "configs" / "h200.softmax.json").read_text())["operator"] == "softmax"
    path.unlink()
    capsys.readouterr()
    example.emulate(tmp_path / "shipped.db")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "looked up: exact, row_reduction" and lines[1].startswith("accuracy: ok")


def test_wrong_numbers_are_noticed(example: Any) -> None:
    inputs = example.PROBLEM.random_inputs(seed=1)
    with pytest.raises(SystemExit, match="out"):
        example.check(inputs, {"out": inputs["x"]})


def test_a_database_without_the_problem_is_reported(
    example: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store.open(tmp_path / "best.db").close()
    monkeypatch.setattr("autosched.dispatch.lookup.default_choice", lambda *_: None)
    with pytest.raises(NoSchedule, match="has no usable trial"):
        example.emulate(tmp_path / "best.db")


@pytest.mark.nightly
def test_the_whole_example_runs(tmp_path: Path) -> None:
    run = forked_python.run(
        [sys.executable, str(SCRIPT), str(tmp_path)], capture_output=True, text=True, cwd=SCRIPT.parents[1]
    )
    assert run.returncode == 0, run.stderr
    assert "tuned: " in run.stdout and "no confirmed regression: 1 same" in run.stdout
    assert "accuracy: ok" in run.stdout and "1 trial added to" in run.stdout
