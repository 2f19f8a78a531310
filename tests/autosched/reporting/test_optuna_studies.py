"""Optuna's dashboard shows a database's studies correctly."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from autosched.cli.app import run
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial
from search_spaces.operators.row_reduction import Softmax
from search_spaces.spaces.schedule import Schedule

PROBLEM = Softmax(4, 64)
NAME = "softmax rows=4 columns=64 dtype=f16 out=f16 on h200 (measured)"


def make_trial(batch: int, seconds: float | None, cache: str = "cold") -> Trial:
    timing = None if seconds is None else Timing.of([seconds])
    status = Status.TIMEOUT if seconds is None else Status.OK
    return Trial(
        problem_key=PROBLEM.key(),
        schedule=Schedule("row_reduction", (("batch", batch), ("passes", "one"), ("peel", batch))),
        device="h200",
        fingerprint=json.dumps({"cache": cache}),
        template_version="",
        space_version="",
        kernel_digest=f"{batch}",
        measurement=Measurement(status, Provenance.MEASURED, "" if timing else "too slow", timing=timing),
        toolchain="nvrtc 13",
        driver="",
        autosched_version="0",
        created=datetime(2026, 11, 24, 12, batch, tzinfo=UTC),
        sampler="bayes",
        seed=0,
    )


@pytest.fixture
def journal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    with Store.open(tmp_path / "best.db") as store:
        store.extend([make_trial(1, 2e-6), make_trial(2, None), make_trial(4, 1e-6), make_trial(1, 5e-7, cache="warm")])
    out = tmp_path / "studies.log"
    for _ in range(2):  # the second report replaces the file of the first report
        assert run(["report", "--db", str(tmp_path / "best.db"), "--optuna", str(out)]) == 0
    assert "2 studies" in capsys.readouterr().out
    return out


def test_each_entry_is_a_study_with_its_failures(journal: Path) -> None:
    storage = JournalStorage(JournalFileBackend(str(journal)))
    warm = NAME.replace("measured", "measured, warm graph free")
    assert sorted(optuna.get_all_study_names(storage)) == sorted([NAME, warm])
    study = optuna.load_study(study_name=NAME, storage=storage)
    assert study.best_value == 1e-6 and study.best_params == {
        "template": "row_reduction", "batch": 4, "passes": "one", "peel": 4
    }  # fmt: skip
    assert [t.state.name for t in study.trials] == ["COMPLETE", "FAIL", "COMPLETE"]
    assert study.trials[1].user_attrs["reason"] == "too slow"
    assert optuna.load_study(study_name=warm, storage=storage).best_value == 5e-7


def test_a_database_without_studies_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Store.open(tmp_path / "empty.db").close()
    assert run(["report", "--db", str(tmp_path / "empty.db"), "--optuna", str(tmp_path / "s.log")]) == 1
    assert "nothing to report" in capsys.readouterr().err and not (tmp_path / "s.log").exists()


def test_the_dashboard_shows_the_studies(journal: Path) -> None:
    pytest.importorskip("optuna_dashboard")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    script = Path(sys.executable).with_name("optuna-dashboard")
    command = [sys.executable, str(script), str(journal), "--host", "127.0.0.1", "--port", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        studies = response(server, port, "/api/studies")["study_summaries"]
        number = next(s["study_id"] for s in studies if s["study_name"] == NAME)
        detail = response(server, port, f"/api/studies/{number}?after=0")
        assert [t["state"] for t in detail["trials"]] == ["Complete", "Fail", "Complete"]
        assert detail["trials"][2]["values"] == [1e-6]
        page = urllib.request.urlopen(f"http://127.0.0.1:{port}/dashboard", timeout=60).read()
        assert b"<html" in page.lower()
    finally:
        server.kill()
        server.communicate()


def response(server: subprocess.Popen[bytes], port: int, path: str) -> Any:
    end = time.monotonic() + 120
    while True:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError:
            raise
        except OSError:  # the server has not started yet
            assert server.poll() is None, server.stderr and server.stderr.read()
            assert time.monotonic() < end, "the server does not respond"
            time.sleep(0.2)
