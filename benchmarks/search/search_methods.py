"""Search methods that ``search_quality`` compares.

- ``bayes``, ``evolution``, ``tpe``, ``random``: autosched's samplers, one trial at a time.
- ``kt_*``: strategies of Kernel Tuner in its simulation mode, with default options and seeded generators, except for
  some options of ``diff_evo`` and ``bayes_opt``.
- ``optuna_tpe_categorical``: Optuna's TPESampler, over the values of parameters.
- ``optuna_tpe_ordinal``: Optuna's multivariate TPESampler, over the indices of values.
- ``xgboost_bootstrap``: a simple baseline: five small models are trained on resampled trials, and the configuration
  with the largest predicted mean plus deviation is tried.
- ``helion_lfbo``, ``helion_lfbo_quick``, ``helion_pattern``: Helion's LFBO tree search with full and with quick effort,
  and Helion's pattern search (``helion_search``).

Optuna also proposes unrecorded configurations. These do not count as evaluations, but there are at most DRAWS proposals
per evaluation. Unrecorded configurations are reported as pruned trials to ``optuna_tpe_categorical``, and as failed
trials to ``optuna_tpe_ordinal``, because this gave the best results.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import itertools
import json
import random
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from autosched.replay.search import Search
from autosched.samplers import sampler
from autosched.user_kernels.expressions import ExpressionError, parse
from measurements.tables.reading import read_table
from measurements.tables.table import Table
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.union_space import UnionSpace

OURS = ("bayes", "evolution", "tpe", "random")
KERNEL_TUNER = (
    "adaptive_tabu_greywolf",
    "hybrid_vndx",
    "genetic_algorithm",
    "firefly_algorithm",
    "simulated_annealing",
    "diff_evo",
    "bayes_opt",
    "random_sample",
)
OPTUNA_AND_XGBOOST = ("optuna_tpe_categorical", "optuna_tpe_ordinal", "xgboost_bootstrap")
HELION = ("helion_lfbo", "helion_lfbo_quick", "helion_pattern")
METHODS = (*OURS, *(f"kt_{name}" for name in KERNEL_TUNER), *OPTUNA_AND_XGBOOST, *HELION)
DRAWS = 10  # maximum proposals per evaluation; many are unrecorded: "gemm" has records of only 1 in 37 combinations
# Sets of restrictions from published tuning scripts. A recording uses the set that allows exactly its configurations.
RESTRICTIONS = (
    (),
    (
        "KWG % KWI == 0",
        "MWG % (MDIMC * VWM) == 0",
        "NWG % (NDIMC * VWN) == 0",
        "MWG % (MDIMA * VWM) == 0",
        "NWG % (NDIMB * VWN) == 0",
        "KWG % ((MDIMC * NDIMC) / MDIMA) == 0",
        "KWG % ((MDIMC * NDIMC) / NDIMB) == 0",
    ),
    (
        "use_padding == 0 or block_size_x % 32 != 0",
        "block_size_x * block_size_y <= 1024",
        "use_padding == 0 or use_shmem != 0",
        "use_shmem == 0 or (block_size_x * tile_size_x + (filter_width - 1))"
        " * (block_size_y * tile_size_y + (filter_height - 1)) < 12 * 1024",
    ),
    (
        "use_padding == 0 or block_size_x % 32 != 0",
        "block_size_x * block_size_y <= 1024",
        "(block_size_x * tile_size_x + 14) * (block_size_y * tile_size_y + 14) < 12 * 1024",
    ),
    ("block_size_x * block_size_y >= 64", "block_size_x * block_size_y <= 1024", "tile_size_x * tile_size_y < 30"),
    (
        "32 <= block_size_x * block_size_y",
        "block_size_x * block_size_y <= 1024",
        "tile_size_x > 1 or tile_stride_x == 0",
        "tile_size_y > 1 or tile_stride_y == 0",
    ),
)


@dataclass(frozen=True)
class Job:
    """One search: a method, a file and a seed."""

    file: str
    method: str
    seed: int
    budget: int


def run(job: Job) -> tuple[Job, Search]:
    """Run one search with the method that the job names."""
    table, _ = _loaded(job.file)
    visit: Callable[[Table, Job], Iterator[Schedule]]
    if job.method in OURS:
        visit = _ours
    elif job.method.startswith("kt_"):
        visit = _kernel_tuner
    elif job.method.startswith("optuna_"):
        visit = _optuna
    elif job.method in HELION:
        visit = _helion
    else:
        visit = _bootstrap
    best, quality = 0.0, list[float]()
    seen: set[Schedule] = set()
    for schedule in visit(table, job):
        if schedule in seen:
            continue
        seen.add(schedule)
        timing = table.measurements[schedule].timing
        best = best if timing is None else max(best, table.best_seconds / timing.median)
        quality.append(best)
        if best == 1.0:  # optimum reached, so the remaining evaluations cannot improve the quality
            quality += [best] * (job.budget - len(quality))
        if len(quality) == job.budget:
            break
    return job, Search(job.seed, tuple(quality), 0.0)


@lru_cache(maxsize=1)
def _loaded(file: str) -> tuple[Table, UnionSpace]:
    table = read_table(file)
    return table, table.space()


def _ours(table: Table, job: Job) -> Iterator[Schedule]:
    _, space = _loaded(job.file)
    searcher = sampler(job.method, space, seed=job.seed)
    while proposals := searcher.ask(1):
        yield proposals[0]
        searcher.tell(proposals[0], table.measurements[proposals[0]])


@lru_cache(maxsize=1)
def _unpacked(file: str) -> tuple[str, dict[str, Any]]:
    """Return a cache as uncompressed JSON text for Kernel Tuner, and its parsed contents without the configurations."""
    text = gzip.decompress(Path(file).read_bytes()).decode()
    document = json.loads(text)
    names = document["tune_params_keys"]
    recorded = {tuple(entry[name] for name in names) for entry in document["cache"].values()}
    document["restrictions"] = _restrictions(document["tune_params"], recorded)
    del document["cache"]
    return text, document


def _restrictions(values: dict[str, list[Any]], recorded: set[tuple[Any, ...]]) -> list[str]:
    """Return the restrictions that allow exactly the recorded configurations.

    Raises:
        ValueError: If no entry of RESTRICTIONS allows exactly these configurations.
    """
    combinations = list(itertools.product(*values.values()))
    coded = {
        name: np.array([row[i] for row in combinations], dtype=np.int64)
        for i, (name, own) in enumerate(values.items())
        if all(isinstance(value, int) for value in own)
    }
    for texts in RESTRICTIONS:
        try:
            rules = [parse(text, dict.fromkeys(coded, "int")) for text in texts]
        except ExpressionError:  # these restrictions use parameters that this recording lacks
            continue
        legal = np.ones(len(combinations), dtype=bool)
        for rule in rules:
            legal &= rule.holds(coded, {})
        if {combinations[i] for i in np.flatnonzero(legal)} == recorded:
            return list(texts)
    raise ValueError("unknown restrictions of this recording: add them to RESTRICTIONS")


def _kernel_tuner(table: Table, job: Job) -> Iterator[Schedule]:
    import kernel_tuner

    text, document = _unpacked(job.file)
    quiet = io.StringIO()
    random.seed(job.seed)  # Kernel Tuner's strategies use the global generators of random and numpy
    np.random.seed(job.seed)
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(quiet),
        contextlib.redirect_stderr(quiet),
        tempfile.TemporaryDirectory(prefix="search_quality_") as folder,
    ):
        warnings.simplefilter("ignore")
        path = Path(folder) / "cache.json"
        path.write_text(text, encoding="utf-8")
        results, _ = kernel_tuner.tune_kernel(
            document["kernel_name"],
            "",
            document["problem_size"],
            [],
            document["tune_params"],
            restrictions=list(document["restrictions"]) or None,
            strategy=job.method.removeprefix("kt_"),
            strategy_options={"max_fevals": job.budget},
            simulation_mode=True,
            cache=str(path),
            seed=job.seed,
            quiet=True,
            lang="CUDA",
        )
    (parameters,) = table.parameters.values()
    for result in results:
        pairs = ((p, result[p.name]) for p in parameters)
        yield Schedule(table.kernel, tuple((p.name, v if v in p.values else str(v)) for p, v in pairs))


def _optuna(table: Table, job: Job) -> Iterator[Schedule]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    ordinal = job.method.endswith("ordinal")
    (parameters,) = table.parameters.values()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        searcher = optuna.samplers.TPESampler(seed=job.seed, multivariate=ordinal)
    study = optuna.create_study(sampler=searcher)
    without_time = optuna.trial.TrialState.FAIL if ordinal else optuna.trial.TrialState.PRUNED
    visited: set[Schedule] = set()
    for _ in range(DRAWS * job.budget):
        trial = study.ask()
        items = []
        for p in parameters:
            last = len(p.values) - 1
            code = trial.suggest_int(p.name, 0, last) if ordinal else trial.suggest_categorical(p.name, range(last + 1))
            items.append((p.name, p.values[int(code)]))
        schedule = Schedule(table.kernel, tuple(items))
        measurement = table.measurements.get(schedule)
        if measurement is None or measurement.timing is None:
            study.tell(trial, state=without_time)
        else:
            study.tell(trial, measurement.timing.median)
        if measurement is not None and schedule not in visited:
            visited.add(schedule)
            yield schedule
            if len(visited) == job.budget:
                return


def _helion(table: Table, job: Job) -> Iterator[Schedule]:
    from benchmarks.search.helion_search import visits  # lazy: imports torch

    return visits(table, job.method, job.seed, job.budget)


def _bootstrap(table: Table, job: Job) -> Iterator[Schedule]:
    import xgboost

    rng = np.random.default_rng(job.seed)
    _, space = _loaded(job.file)
    schedules = list(table.measurements)
    rows = np.asarray(space.encode(schedules))
    everything = xgboost.DMatrix(rows)
    seconds = [m.timing.median if m.timing is not None else np.nan for m in table.measurements.values()]
    order: list[int] = []
    unseen = np.ones(len(rows), dtype=bool)
    for _ in range(job.budget):
        if len(order) < 10 or np.isnan([seconds[i] for i in order]).all():
            chosen = int(rng.choice(np.flatnonzero(unseen)))
        else:
            times = np.array([seconds[i] for i in order])
            value = np.nan_to_num(np.nanmin(times) / times, nan=0.0)
            predicted = []
            for member in range(5):
                drawn = rng.integers(len(order), size=len(order))
                settings = {"max_depth": 4, "eta": 0.2, "nthread": 1, "seed": member}
                known = xgboost.DMatrix(rows[[order[i] for i in drawn]], label=value[drawn])
                predicted.append(xgboost.train(settings, known, num_boost_round=60).predict(everything))
            worth = np.mean(predicted, axis=0) + np.std(predicted, axis=0)
            chosen = int(np.where(unseen, worth, -np.inf).argmax())
        order.append(chosen)
        unseen[chosen] = False
        yield schedules[chosen]
