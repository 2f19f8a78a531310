"""FlashInfer's real autotuner stores its choices in a database. Later starts and all processes use the same choices.

Only the package's files are needed. FLASHINFER_FOLDERS lists folders with ``flashinfer`` in several versions; if it is
unset, the installed version is used. Each start is a process in which ``flashinfer`` is a package without its
``__init__``, whose imports need CUDA.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

PROGRAM = """
import importlib.machinery, json, sys, types
folder, database, first = sys.argv[1:4]
package = types.ModuleType("flashinfer")
package.__path__ = [folder + "/flashinfer"]
package.__spec__ = importlib.machinery.ModuleSpec("flashinfer", None, is_package=True)
sys.modules["flashinfer"] = package
import torch
torch.cuda.is_current_stream_capturing = lambda: False  # there is no GPU
torch.cuda.synchronize = torch.cuda.empty_cache = lambda *_: None
try:
    from flashinfer import autotuner
except ImportError as error:
    print(f"cannot import: {error}")
    raise SystemExit(0)
from autosched.integrations.flashinfer.persistence import persist

persistence = persist(database, device="NVIDIA H100")
timed = []

class Runner(autotuner.TunableRunner):
    def get_valid_tactics(self, inputs, profile):
        return [(1, 2), (3, 4), (5, 6)]

    def forward(self, inputs, tactic=-1, do_preparation=False, **kwargs):
        return tactic

    def __hash__(self):
        return id(self)

tuner, config, runner = autotuner.AutoTuner.get(), autotuner.TuningConfig(), Runner()

def profile(self, runner, inputs, tactic, *args, **kwargs):
    timed.append(tactic)
    return 0.0 if tactic[0] == int(first) else 1.0

type(tuner)._profile_single_kernel = profile
tensors = [torch.zeros(4, 8)]
with autotuner.autotune(True):
    tuner.choose_one("fp4_gemm", [runner], config, tensors)
_, tactic = tuner.choose_one("fp4_gemm", [runner], config, tensors)
print(json.dumps({"tactic": list(tactic), "timed": len(timed), "counts": [persistence.answered, persistence.tuned]}))
"""


def _folders() -> list[str]:
    configured = os.environ.get("FLASHINFER_FOLDERS", "").split(os.pathsep)
    spec = importlib.util.find_spec("flashinfer")
    installed = [str(Path(spec.origin).parents[1])] if spec is not None and spec.origin else []
    return [folder for folder in configured if folder] or installed


@pytest.fixture(params=_folders() or [None])
def start(request, tmp_path):
    if request.param is None:
        pytest.skip("flashinfer is not installed: pip install flashinfer-python")
    pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")

    def run(first: int = 3) -> dict:
        command = [
            sys.executable,
            "-W",
            "error::RuntimeWarning",
            "-c",
            PROGRAM,
            request.param,
            str(tmp_path / "best.db"),
        ]
        completed = subprocess.run([*command, str(first)], capture_output=True, text=True, check=False)
        assert completed.returncode == 0, completed.stderr
        last = completed.stdout.splitlines()[-1]
        if last.startswith("cannot import"):
            pytest.skip(last)
        return json.loads(last)

    return run


def test_a_second_start_measures_nothing(start) -> None:
    assert start() == {"tactic": [3, 4], "timed": 3, "counts": [0, 1]}
    assert start(first=5) == {"tactic": [3, 4], "timed": 0, "counts": [1, 0]}


@pytest.mark.nightly
def test_processes_that_tune_together_agree(start) -> None:
    with ThreadPoolExecutor(4) as pool:
        tactics = list(pool.map(lambda first: tuple(start(first)["tactic"]), [1, 3, 5, 1]))
    assert len(set(tactics)) == 1


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_serve_keeps_the_choices_of_the_whole_package(tmp_path: Path) -> None:
    """Start the same command twice. Each time it runs four processes at once."""
    if not all(importlib.util.find_spec(name) for name in ("flashinfer", "tvm_ffi", "torch")):
        pytest.skip("flashinfer is not installed: pip install flashinfer-python")
    starts = "import subprocess, sys; p = [subprocess.Popen(sys.argv[1:]) for _ in range(4)]; [q.wait() for q in p]"
    program = [sys.executable, "-c", starts, sys.executable, str(Path(__file__).parent / "served.py")]
    command = [sys.executable, "-m", "autosched", "serve", "--db", str(tmp_path / "best.db"), "--", *program]
    outputs = []
    for _ in range(2):
        completed = subprocess.run(command, capture_output=True, text=True, check=False)
        assert completed.returncode == 0, completed.stderr[-2000:]
        lines = [json.loads(line) for line in completed.stdout.splitlines() if line.startswith('{"choices"')]
        assert len(lines) == 4, completed.stderr[-2000:]
        outputs.append(lines)
    first, second = outputs
    assert sum(line["timed"] for line in first) >= 9 and not any(line["timed"] for line in second)
    assert len({json.dumps(line["choices"]) for line in (*first, *second)}) == 1
