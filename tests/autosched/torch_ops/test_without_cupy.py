"""Without cupy, torch's operators load kernels with cuda.core and launch them with the driver's function."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kernels import generate, space_of
from needs import needs_compiler, needs_nvrtc
from store_trials import make_trial

pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
pytest.importorskip("cuda.core", reason="cuda.core is not installed: pip install 'autosched[torch-cuda13]'")

from benchmarks.overhead.stand_in import compiled_stand_in
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.row_reduction import Softmax

PROGRAM = Path(__file__).parents[2] / "support/host_path/without_cupy.py"
H200 = device("h200")
PROBLEMS = (
    (Matmul(m=128, n=128, k=256), "wgmma_matmul"),
    (Softmax(rows=4, columns=512, dtype="f32", out="f32"), "row_reduction"),
)


@needs_compiler
@needs_nvrtc
def test_kernels_are_called(tmp_path: Path) -> None:
    timing = Measurement(Status.OK, Provenance.ESTIMATED, timing=Timing.estimate(1e-6))
    with Store.open(tmp_path / "best.db") as store:
        for problem, template_name in PROBLEMS:
            schedules = space_of(problem, H200).sample(200, 1)
            generated = ((s, generate(problem, s, H200)) for s in schedules if s.template == template_name)
            schedule = next(
                s
                for s, kernel in generated
                if all(o.role != "workspace" for o in kernel.operands)
                and (kernel.cluster != (1, 1, 1) or template_name != "wgmma_matmul")
            )
            store.append(make_trial(schedule, timing, problem))
    stand_in = compiled_stand_in(tmp_path)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-W", "ignore", str(PROGRAM), str(tmp_path / "best.db"), str(stand_in)]
    completed = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.startswith("matmul [128") and "softmax [8" in completed.stdout
