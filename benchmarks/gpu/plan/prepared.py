"""The prepared plan: a small folder with the schedules of each problem, and their cubins.

    python -m benchmarks.gpu --plan FOLDER --prepare --device h200

``plan.json`` lists problems and schedules; the schedule that the time model ranks first comes first. ``cubins.zip`` is
a compile cache. The kernels are generated again on the GPU's machine, which therefore needs the same version of
autosched.
"""

from __future__ import annotations

import json
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from autosched.samplers.base import spread_out
from autosched.samplers.first_choices.descent import descended, starting_points
from autosched.version import VERSION
from benchmarks.gpu.plan.problems import FINALS, LANGUAGE, PROBLEMS, SUSTAINED, YARDSTICKS, NextToTorch
from benchmarks.gpu.table import short_name
from cost_models.estimates import AnalyticEstimates
from measurements.compiler.pool import Compiled, CompilePool
from measurements.compiler.prepared import PreparedCubins
from measurements.files.bounded import read_json
from measurements.runners.cuda import check_kernels
from search_spaces.catalogue import problem_from_json, template, templates_for
from search_spaces.hardware.devices import Device
from search_spaces.hardware.devices import device as device_of
from search_spaces.operators.problem import Problem
from search_spaces.spaces.schedule import Schedule

PER_PROBLEM = 30
# Schedules per problem: the schedules with the best estimates, and variations of the best schedule. The remaining
# schedules are random.
_BEST, _VARIATIONS = 12, 6
_RANDOM_WITHIN = 1.5  # maximum estimated time of a random schedule, relative to the model's first choice
_SAMPLES = 600
_DIFFERENT = 3  # if possible, any two of the best schedules differ in at least this many parameters
_MOST_BYTES = 1 << 24  # maximum size of plan.json

Say = Callable[[str], None]


@dataclass(frozen=True)
class Prepared:
    """The contents of a plan, with the cubins.

    Attributes:
        device: GPU that the plan is for.
        schedules: Schedules of each problem; the model's first choice comes first.
        cubins: Compile pool that returns the compiled kernels.
        folder: Folder of the prepared plan.
    """

    device: Device
    schedules: dict[Problem, tuple[Schedule, ...]]
    cubins: PreparedCubins
    folder: Path


def choose(problem: Problem, device: Device, count: int = PER_PROBLEM, seed: int = 0) -> list[Schedule]:
    """Return schedules to measure, the time model's first choice first.

    Two fifths of the schedules have the shortest estimates, and differ from each other in several parameters. One fifth
    differs from the model's first choice in one decision. The remaining schedules are random, with estimates not much
    longer than the estimate of the first choice.

    Raises:
        ValueError: No template supports the problem, or the space is empty.
    """
    templates = templates_for(problem, device)
    space = templates.space(problem, device)
    estimates = AnalyticEstimates(problem, templates, device)
    sampled = list(dict.fromkeys(starting_points(space, _SAMPLES, seed)))
    ends = descended(space, estimates, sampled)
    known = list(dict.fromkeys([*ends, *sampled]))
    guesses = dict(zip(known, estimates.log_seconds(known).tolist(), strict=True))
    ranked = sorted((s for s in known if np.isfinite(guesses[s])), key=lambda s: guesses[s])
    if not ranked:
        raise ValueError("no schedule fits on the device")
    best = spread_out(ranked, max(count * _BEST // PER_PROBLEM, 1), _DIFFERENT)
    near = space.neighbours(best[0])
    order = np.argsort(estimates.log_seconds(near), kind="stable").tolist() if near else []
    variations = [near[i] for i in order if near[i] not in best][: count * _VARIATIONS // PER_PROBLEM]
    chosen = list(dict.fromkeys([*best, *variations]))
    rng = np.random.default_rng(seed)
    bound = guesses[ranked[0]] + np.log(_RANDOM_WITHIN)
    remaining = [s for s in ranked if s not in chosen and guesses[s] <= bound] or [s for s in ranked if s not in chosen]
    picked = rng.permutation(len(remaining))[: count - len(chosen)].tolist()
    return [*chosen, *(remaining[i] for i in picked)]


def prepare(
    folder: Path,
    device: Device,
    pool: CompilePool,
    say: Say,
    *,
    problems: Sequence[Problem] = (*PROBLEMS, *YARDSTICKS, SUSTAINED),
    language: Sequence[NextToTorch] = LANGUAGE,
    per_problem: int = PER_PROBLEM,
) -> None:
    """Choose and compile schedules of each problem, and write them to the folder.

    A schedule that does not compile is omitted. If a schedule was compiled before, the pool's cache is used.

    Raises:
        OSError: The folder cannot be written.
        ValueError: The check kernels do not compile.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cache = pool.cache
    checks = pool.compile(check_kernels.KERNEL, device.arch)
    if not isinstance(checks, Compiled):
        raise ValueError(f"the check kernels do not compile: {checks.reason}")
    items: list[dict[str, Any]] = []
    keys = [cache.key(check_kernels.KERNEL, device.arch, pool.options(check_kernels.KERNEL), pool.toolchain)]
    wide = {*PROBLEMS, *(each.problem for each in language)}
    everything = list(dict.fromkeys([*problems, *(each.problem for each in language)]))
    for i, problem in enumerate(everything):
        schedules = choose(problem, device, per_problem if problem in wide else 1)
        kernels = [template(s.template).kernel(problem, s, device) for s in schedules]
        compiled = [future.result() for future in [pool.submit(kernel, device.arch) for kernel in kernels]]
        compiled_indices = [j for j, each in enumerate(compiled) if isinstance(each, Compiled)]
        keys += [cache.key(kernels[j], device.arch, pool.options(kernels[j]), pool.toolchain) for j in compiled_indices]
        rows = [{"template": schedules[j].template, "schedule": schedules[j].to_json()} for j in compiled_indices]
        items.append({"problem": problem.to_json(), "schedules": rows})
        say(
            f"{i + 1} of {len(everything)}: {short_name(problem)}: "
            f"{len(compiled_indices)} of {len(schedules)} schedules compiled"
        )
    plan = {"autosched": VERSION, "device": device.name, "toolchain": pool.toolchain, "items": items}
    with zipfile.ZipFile(folder / "cubins.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in cache.files(keys):
            archive.write(cache.folder / name, name)
    (folder / "plan.json").write_text(json.dumps(plan, indent=1) + "\n")


def load(folder: Path, unpacked: Path) -> Prepared:
    """Read a prepared folder, and unpack its cubins into ``unpacked``.

    Raises:
        ValueError: The folder has no plan, or its plan is from another version of autosched.
    """
    try:
        plan = read_json(folder / "plan.json", _MOST_BYTES)
        if plan["autosched"] != VERSION:
            raise ValueError(f"the plan was prepared by autosched {plan['autosched']}, but this is {VERSION}")
        schedules = {
            problem_from_json(item["problem"]): tuple(
                Schedule.from_json(row["template"], row["schedule"]) for row in item["schedules"]
            )
            for item in plan["items"]
        }
        with zipfile.ZipFile(folder / "cubins.zip") as archive:
            archive.extractall(unpacked)
        return Prepared(device_of(plan["device"]), schedules, PreparedCubins(unpacked, str(plan["toolchain"])), folder)
    except (OSError, KeyError, TypeError, zipfile.BadZipFile) as error:
        raise ValueError(f"{folder} has no usable plan ({error}): create one with --prepare") from error


def finals(prepared: Prepared) -> list[Problem]:
    """Return the problems of the plan that are compared with the vendor's library."""
    return [problem for problem in prepared.schedules if problem in FINALS]


def scratch() -> tempfile.TemporaryDirectory[str]:
    """Return a temporary folder for unpacked cubins, which is deleted when the object is closed."""
    return tempfile.TemporaryDirectory(prefix="autosched-plan-")
