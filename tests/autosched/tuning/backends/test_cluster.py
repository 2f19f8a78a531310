"""``tune --ray`` searches on a simulated cluster. Many processes share one PostgreSQL server, as under Slurm."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from postgresql_server import server

from autosched.cli.app import run
from autosched.tuning import backends
from autosched.tuning.backends import BackendError
from measurements.runners.fleet import cluster as clusters

PROBLEM = ("matmul", "-m", "64", "-n", "64", "-k", "64")


def test_ray_excludes_options_of_a_single_machine(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="--backend and --gpus"):
        backends.choose(None, backends.BackendOptions(backend="estimate", ray="auto"))
    with pytest.raises(BackendError, match="--backend and --gpus"):
        backends.choose(None, backends.BackendOptions(backend="auto", gpus=[0], ray="auto"))
    assert run(["tune", *PROBLEM, "--db", str(tmp_path / "a.db"), "--ray", "auto", "--gpus", "0"]) == 2
    assert "--backend and --gpus" in capsys.readouterr().err
    assert not (tmp_path / "a.db").exists()


def test_a_missing_ray_is_reported_with_its_installation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match=r"Ray is not installed: pip install 'autosched\[ray\]'"):
        clusters.Fleet("auto")


@pytest.mark.nightly
def test_processes_of_a_job_array_share_one_server() -> None:
    """Processes are started as in docs/how-to/many-gpus.md, but with estimated times instead of a GPU."""
    tune = [sys.executable, "-m", "autosched", "tune", *PROBLEM, "--trials", "4", "--device", "a100", "--json"]
    with server() as url:
        db = url.format("postgres")
        tasks = [
            subprocess.Popen(
                [*tune, "--verification-seconds", "0", "--db", db, "--seed", str(n)], stdout=subprocess.PIPE
            )
            for n in range(3)
        ]
        reports = [json.loads(task.communicate(timeout=280)[0]) for task in tasks]
        assert [task.returncode for task in tasks] == [0, 0, 0]
        best = [sys.executable, "-m", "autosched", "best", *PROBLEM, "--device", "a100", "--db", db, "--json"]
        completed = subprocess.run(best, capture_output=True, text=True, check=True, timeout=60)
        best_seconds = json.loads(completed.stdout)["best"][0]["timing"]["median"]
    assert best_seconds == min(report["best"]["timing"]["median"] for report in reports)
