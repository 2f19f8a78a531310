"""Sources of the baseline of a timed check: the stored trial, another database, or another Python environment."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from autosched.regression import baseline_child
from autosched.regression.entries import CheckedEntry
from autosched.regression.timed import Baseline
from measurements.compiler.cubin_cache import CompileCache, Compiled, CompiledStep
from measurements.compiler.pool import CompileFailure, CompilePool
from measurements.runners.base import Candidate
from measurements.store.store import Store
from measurements.trials.measurement import Resources
from measurements.trials.vendor_library import is_library
from search_spaces.catalogue import template
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import launch_from_json

# description of a baseline with the same source as the candidate, but from another compiler
_MARK = "-DAUTOSCHED_BASELINE"
_CHILD_SECONDS = 600.0
# Environment variables that the other Python must not inherit.
_OWN_ENVIRONMENT = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")


class BaselineError(ValueError):
    """A baseline is not available. The message is one sentence with the remedy."""


class RecordedBaseline:
    """Baseline that is the recorded kernel, which the current code must still generate."""

    def __call__(self, entry: CheckedEntry, candidate: Candidate) -> Baseline | str:
        """Return the candidate if it equals the recorded kernel, else a message with the remedy."""
        if candidate.kernel.digest == entry.trial.kernel_digest:
            return Baseline(candidate, "")
        return (
            f"the kernel has changed since autosched {entry.trial.autosched_version} recorded it: use --baseline "
            "with the Python of an environment that still generates the old kernel, or --against with a database"
        )


class DatabaseBaseline:
    """Baseline that the current code generates from the best schedule in another database."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __call__(self, entry: CheckedEntry, candidate: Candidate) -> Baseline | str:
        """Return the best schedule of the other database, or the reason why there is none."""
        trial = self._store.best(entry.problem, entry.device.name)
        if trial is None or is_library(trial.schedule):
            return f"{self._store.name} has no schedule for this entry"
        try:
            kernel = template(trial.schedule.template).kernel(entry.problem, trial.schedule, entry.device)
        except ValueError as error:
            return f"the schedule in {self._store.name} is no longer valid: {error}"
        return Baseline(
            Candidate(entry.problem.under(trial.schedule.values), trial.schedule, kernel),
            f"the schedule of {self._store.name} (trial {trial.id}) is the baseline",
        )


class KnownPrograms(CompilePool):
    """A compile pool to which modules from another environment can be added."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._known: dict[str, Compiled] = {}

    def add(self, kernel: GeneratedKernel, compiled: Compiled) -> None:
        """Register ``compiled`` as the module of ``kernel``."""
        self._known[kernel.digest] = compiled

    def submit(self, kernel: GeneratedKernel, arch: str) -> Future[Compiled | CompileFailure]:
        """Return the registered module of a kernel, or compile the kernel."""
        known = self._known.get(kernel.digest)
        if known is None or known.arch != arch:
            return super().submit(kernel, arch)
        done: Future[Compiled | CompileFailure] = Future()
        done.set_result(known)
        return done


class EnvironmentBaseline:
    """Baselines that another Python environment generates and compiles from the stored schedules.

    Args:
        python: The interpreter of the other environment, for example a virtual environment with the base branch.
        entries: Entries to compare.
        pool: Compile pool that stores the returned cubins.
        kernel_files: Kernel files that the other environment reads, in this order.
        programs: Files of tile programs that the other environment reads.

    Raises:
        BaselineError: The environment does not respond.
    """

    def __init__(
        self,
        python: str,
        entries: Sequence[CheckedEntry],
        pool: KnownPrograms,
        kernel_files: Sequence[str] = (),
        programs: Sequence[str] = (),
    ) -> None:
        self._answers = _answers_of(python, entries, kernel_files, programs)
        self._pool = pool
        self._answer_indices = {entry.position: i for i, entry in enumerate(entries)}

    def __call__(self, entry: CheckedEntry, candidate: Candidate) -> Baseline | str:
        """Return the kernel that the baseline environment generated, or the reason why there is none."""
        answer = self._answers[self._answer_indices[entry.position]]
        if "error" in answer:
            return f"the baseline environment cannot generate the kernel: {answer['error']}"
        try:
            kernel, compiled = _program(answer, self._pool.cache, entry.device.arch)
        except (KeyError, TypeError, ValueError) as error:
            return f"the baseline environment returned an invalid kernel: {type(error).__name__} {error}"
        self._pool.add(kernel, compiled)
        measured = "the kernel that was recorded" if answer["digest"] == entry.trial.kernel_digest else "its own kernel"
        if answer["digest"] == candidate.kernel.digest:
            why = f"the same source, compiled by {self._pool.toolchain} instead of {compiled.toolchain}"
        else:
            why = f"the code differs from the code of the baseline: autosched {answer['version']} generated {measured}"
        return Baseline(dataclasses.replace(candidate, kernel=kernel), why)


def _answers_of(
    python: str, entries: Sequence[CheckedEntry], kernel_files: Sequence[str], programs: Sequence[str]
) -> list[Mapping[str, Any]]:
    request = {
        "kernels": [str(Path(file).absolute()) for file in kernel_files],
        "programs": [str(Path(source).absolute()) for source in programs],
        "entries": [
            {
                "problem": entry.problem.to_json(),
                "template": entry.trial.schedule.template,
                "schedule": entry.trial.schedule.to_json(),
                "device": entry.device.name,
            }
            for entry in entries
        ],
    }
    try:
        done = subprocess.run(
            [python, str(Path(baseline_child.__file__).absolute())],
            input=json.dumps(request),
            capture_output=True,
            text=True,
            timeout=_CHILD_SECONDS,
            check=False,
            env={name: value for name, value in os.environ.items() if name not in _OWN_ENVIRONMENT},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BaselineError(
            f"the baseline environment {python} cannot be run ({error}): pass the path of a Python interpreter"
        ) from error
    last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
    if done.returncode != 0:
        raise BaselineError(f"the baseline environment {python} failed ({last}): install autosched there")
    try:
        answers = json.loads(done.stdout)["entries"]
    except (ValueError, KeyError, TypeError) as error:
        raise BaselineError(f"the baseline environment {python} did not return JSON ({last})") from error
    if not isinstance(answers, list) or len(answers) != len(entries):
        raise BaselineError(f"the baseline environment {python} returned other entries than requested")
    return answers


def _program(answer: Mapping[str, Any], cache: CompileCache, arch: str) -> tuple[GeneratedKernel, Compiled]:
    launch = launch_from_json(answer["launch"])
    fields = {f.name: getattr(launch, f.name) for f in dataclasses.fields(launch)}
    cubin, options = base64.b64decode(answer["cubin"]), (*answer["compile_options"], _MARK)
    kernel = GeneratedKernel(**fields, source=answer["source"], compile_options=options)
    identity = hashlib.sha256(cubin).hexdigest()
    compiled = cache.store(
        CompileCache.key(kernel, arch, [identity], str(answer["toolchain"])),
        cubin,
        entry=str(answer["entry"]),
        resources=Resources(**answer["resources"]),
        compile_seconds=0.0,
        log="",
        arch=arch,
        toolchain=str(answer["toolchain"]),
        steps=[CompiledStep(str(entry), Resources(**resources)) for entry, resources in answer.get("steps", ())],
    )
    return kernel, compiled
