"""BLAS is limited to one thread during many small computations. Afterwards the previous number is restored."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import autosched
from autosched import blas
from autosched.samplers import sampler
from autosched.testing.samplers import TOY, ok
from cost_models import gaussian_process
from cost_models.covariance import Hyperparameters
from cost_models.estimates import Estimates
from search_spaces.arrays import FloatArray
from search_spaces.spaces.schedule import Schedule


@pytest.fixture(autouse=True)
def _two_threads() -> Iterator[None]:
    with threadpool_limits(2, user_api="blas"):
        yield


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_the_number_of_threads_is_restored() -> None:
    with blas.single_thread(), blas.single_thread():
        assert blas_threads() == {1}
    assert blas_threads() == {2}


def test_a_thread_that_ends_later_does_not_keep_the_limit() -> None:
    entered, leave = threading.Event(), threading.Event()

    def other() -> None:
        with blas.single_thread():
            entered.set()
            leave.wait(60)

    thread = threading.Thread(target=other)
    with blas.single_thread():
        thread.start()
        assert entered.wait(60)
        assert blas_threads() == {1}
    leave.set()
    thread.join()
    assert blas_threads() == {2}


def test_a_sampler_runs_its_model_in_one_thread() -> None:
    thread_counts: list[set[int]] = []

    def log_seconds(schedules: Sequence[Schedule]) -> FloatArray:
        thread_counts.append(blas_threads())
        return np.zeros(len(schedules))

    searching = sampler("bayes", TOY, seed=0, estimates=Estimates(TOY.encode, log_seconds))
    for schedule in searching.ask(2):
        searching.tell(schedule, ok(1e-6))
    assert thread_counts
    assert all(threads == {1} for threads in thread_counts)
    assert blas_threads() == {2}


def test_a_sampler_of_optuna_studies_runs_its_model_in_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    optuna = pytest.importorskip("optuna")
    thread_counts: list[set[int]] = []
    fitted = gaussian_process.hyperparameters

    def hyperparameters(*positional: Any, **named: Any) -> Hyperparameters:
        thread_counts.append(blas_threads())
        return fitted(*positional, **named)

    monkeypatch.setattr(gaussian_process, "hyperparameters", hyperparameters)
    study = optuna.create_study(sampler=autosched.StudySampler(seed=0))
    study.optimize(lambda trial: (trial.suggest_int("x", 0, 9) - 4) ** 2, n_trials=8)
    assert thread_counts and all(threads == {1} for threads in thread_counts)
    assert blas_threads() == {2}


COMMAND = """
import os, sys

class Finder:
    @staticmethod
    def find_spec(name, *_):
        if name == "numpy":
            print("numpy", os.environ.get("OPENBLAS_THREAD_TIMEOUT"))

before = dict(os.environ)
sys.meta_path.insert(0, Finder)
from autosched.cli import main
main(["space", "copy", "--help"])
print(dict(os.environ) == before)
"""


@pytest.mark.parametrize(("chosen", "cycles"), [(None, "4"), ("20", "20")])
def test_idle_threads_sleep_immediately_but_not_in_children(chosen: str | None, cycles: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_THREAD_TIMEOUT"}
    if chosen is not None:
        environment["OPENBLAS_THREAD_TIMEOUT"] = chosen
    completed = subprocess.run(
        [sys.executable, "-c", COMMAND], capture_output=True, text=True, check=True, env=environment
    )
    lines = completed.stdout.splitlines()
    assert [line for line in lines if line.startswith("numpy ")] == [f"numpy {cycles}"]
    assert lines[-1] == "True"
