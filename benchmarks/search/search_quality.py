"""Ours against other tuners' searches on recorded spaces, by one rule, in one run.

    python -m benchmarks.search.search_quality FOLDER [--repeats 20] [--budget 200] [--methods M[@FILE][:N] ...]
        [--files F ...] [--journal FILE] [--results FOLDER] [--name search_quality]

FOLDER holds caches of Kernel Tuner (``*.json.gz``). One evaluation is the first visit of a recorded configuration,
whether or not it ran; every method searches exactly the recorded configurations. Writes the table and the curves with
their quartiles to ``NAME.{md,json,png}`` in ``benchmarks/results``. Kernel Tuner is the extra ``benchmark``.

Methods: ``bayes``, ``evolution``, ``tpe``, ``random`` of ours, one trial at a time; ``kt_*`` are strategies of Kernel
Tuner in its simulation mode, with their default options and seeded generators (``diff_evo`` and ``bayes_opt`` have
others besides); ``optuna_tpe_categorical`` and ``optuna_tpe_ordinal`` are Optuna's TPESampler (the latter multivariate,
over positions), to which a configuration that is not recorded is told at no cost, until it has proposed DRAWS for each
evaluation of the budget: to the former as pruned, so that it learns what is recorded, to the latter as failed, as it
finds less with what it learns from those; ``xgboost_bootstrap`` is the untuned baseline: five small models on resampled
trials, the largest mean plus deviation of all configurations next.

A method with ``@FILE`` is run on that recording alone; the page names what was not run. Methods are run one after the
other, each on all its recordings. With ``--journal`` a run that was stopped goes on where it was: the searches in the
file are not made again. A search that has found the optimum is stopped there, as its curve is known from then on.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import itertools
import json
import os
import platform
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from autosched.cli.commands.replay import QUALITIES, searches_json
from autosched.replay.search import NEAR, Search, Searches
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
OTHERS = ("optuna_tpe_categorical", "optuna_tpe_ordinal", "xgboost_bootstrap")
METHODS = (*OURS, *(f"kt_{name}" for name in KERNEL_TUNER), *OTHERS)
AFTER = (50, 100, 200)
DRAWS = 10  # of the combinations of gemm 1 in 37 is recorded
RESTRICTIONS = (  # of the published tuning scripts; those that give exactly what is recorded are used
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
RESULTS = Path(__file__).parents[1] / "results"


@dataclass(frozen=True)
class Job:
    """One search: a method, a file and a seed."""

    file: str
    method: str
    seed: int
    budget: int


def run(job: Job) -> tuple[Job, Search]:
    """One search by the method's name."""
    table, _ = _loaded(job.file)
    visit: Callable[[Table, Job], Iterator[Schedule]]
    if job.method in OURS:
        visit = _ours
    elif job.method.startswith("kt_"):
        visit = _kernel_tuner
    elif job.method.startswith("optuna_"):
        visit = _optuna
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
        if best == 1.0:  # nothing can change any more
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
    made = sampler(job.method, space, seed=job.seed)
    while asked := made.ask(1):
        yield asked[0]
        made.tell(asked[0], table.measurements[asked[0]])


@lru_cache(maxsize=1)
def _unpacked(file: str) -> tuple[str, dict[str, Any]]:
    """Return a cache as plain JSON, which Kernel Tuner reads, and what it holds besides the configurations."""
    text = gzip.decompress(Path(file).read_bytes()).decode()
    document = json.loads(text)
    names = document["tune_params_keys"]
    recorded = {tuple(entry[name] for name in names) for entry in document["cache"].values()}
    document["restrictions"] = _restrictions(document["tune_params"], recorded)
    del document["cache"]
    return text, document


def _restrictions(values: dict[str, list[Any]], recorded: set[tuple[Any, ...]]) -> list[str]:
    """Raise ValueError where none of RESTRICTIONS gives what is recorded."""
    whole = list(itertools.product(*values.values()))
    coded = {
        name: np.array([row[i] for row in whole], dtype=np.int64)
        for i, (name, own) in enumerate(values.items())
        if all(isinstance(value, int) for value in own)
    }
    for texts in RESTRICTIONS:
        try:
            rules = [parse(text, dict.fromkeys(coded, "int")) for text in texts]
        except ExpressionError:  # of other parameters
            continue
        legal = np.ones(len(whole), dtype=bool)
        for rule in rules:
            legal &= rule.holds(coded, {})
        if {whole[i] for i in np.flatnonzero(legal)} == recorded:
            return list(texts)
    raise ValueError("the restrictions of this recording are not known: add them to RESTRICTIONS")


def _kernel_tuner(table: Table, job: Job) -> Iterator[Schedule]:
    import kernel_tuner

    text, document = _unpacked(job.file)
    quiet = io.StringIO()
    random.seed(job.seed)  # its strategies draw from these two
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
        found = ((p, result[p.name]) for p in parameters)
        yield Schedule(table.kernel, tuple((p.name, v if v in p.values else str(v)) for p, v in found))


def _optuna(table: Table, job: Job) -> Iterator[Schedule]:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    ordinal = job.method.endswith("ordinal")
    (parameters,) = table.parameters.values()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = optuna.samplers.TPESampler(seed=job.seed, multivariate=ordinal)
    study = optuna.create_study(sampler=made)
    without_time = optuna.trial.TrialState.FAIL if ordinal else optuna.trial.TrialState.PRUNED
    told: dict[Schedule, float | None] = {}
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
        if measurement is not None and schedule not in told:
            told[schedule] = None
            yield schedule
            if len(told) == job.budget:
                return


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


def jobs(files: Sequence[Path], methods: Sequence[str], repeats: int, budget: int) -> list[Job]:
    """All searches, method by method. A method may end in ``@`` and the name of the one recording it is for, and then
    in ``:`` and a number of searches that is not ``repeats``.

    Raises ValueError for a method or a recording that is not there, or where no number follows the colon.
    """
    named = {_name(str(f)): f for f in files}
    made = []
    for text in methods:
        rest, _, number = text.partition(":")
        method, _, only = rest.partition("@")
        if number and not number.isdecimal():
            raise ValueError(f"{text!r} does not end in a number of searches")
        if method not in METHODS:
            raise ValueError(f"there is no method {method!r}; the methods are {', '.join(METHODS)}")
        if only and only not in named:
            raise ValueError(f"there is no recording {only!r} for {method}; there are {', '.join(named)}")
        for file in [named[only]] if only else files:
            made += [Job(str(file), method, seed, budget) for seed in range(int(number or repeats))]
    return made


Key = tuple[str, str, int, int]


def _key(job: Job) -> Key:
    return _name(job.file), job.method, job.seed, job.budget


def _journal(path: Path | None) -> dict[Key, Search]:
    """Return the searches that a journal holds. Raises ValueError where a whole line is none; a cut last line is left
    out."""
    found = dict[Key, Search]()
    if path is None or not path.exists():
        return found
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            file, method, seed, budget, quality = json.loads(line)
            found[str(file), str(method), int(seed), int(budget)] = Search(seed, tuple(map(float, quality)), 0.0)
        except (ValueError, TypeError):
            raise ValueError(f"line {number} of {path} is not a search: give another --journal") from None
    if lines[-1]:
        path.write_text("".join(f"{line}\n" for line in lines[:-1]), encoding="utf-8")
    return found


def _note(path: Path | None, job: Job, made: Search) -> None:
    if path is not None:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps([*_key(job), made.quality]) + "\n")


def _name(file: str) -> str:
    return Path(file).name.removesuffix(".json.gz")


def summary(found: dict[str, dict[str, Searches]], repeats: int, budget: int, now: datetime) -> str:
    """Return the tables as Markdown: by file {method: its searches}."""
    lines = [
        "# Search quality on recorded spaces",
        "",
        "Written by `python -m benchmarks.search.search_quality`; the rule and the methods are explained there.",
        f"Up to {repeats} searches of {budget} evaluations each, {now:%Y-%m-%d}, on {os.cpu_count()} cores "
        f"({platform.machine()}), without a GPU: the times are recorded ones.",
        "",
    ]
    after = [n for n in AFTER if n <= budget] or [budget]
    for file, methods in found.items():
        lines += [
            f"## {file}",
            "",
            "| method | searches | to 90% | to 95% | to 99% | " + " | ".join(f"after {n}" for n in after) + " |",
            "|---|" + "---:|" * (4 + len(after)),
        ]
        for method, made in methods.items():
            medians = [made.median_evaluations_to(q) for q in QUALITIES]
            cells = [f"over {budget}" if m is None else f"{m:g}" for m in medians]
            cells += [f"{made.quartiles(n)[1]:.3f}" for n in after]
            lines.append(f"| {method} | {len(made.searches)} | " + " | ".join(cells) + " |")
        missing = [method for method in METHODS if method not in methods]
        lines += ["", f"Not run: {', '.join(missing)}.", ""] if missing else [""]
    lines += [*_against_best_peer(found, budget), ""]
    return "\n".join(lines)


def _against_best_peer(found: dict[str, dict[str, Searches]], budget: int) -> list[str]:
    lines = ["## bayes against the best of the peers that were run", ""]
    lines += ["Evaluations to 95% of the optimum, medians.", ""]
    lines += ["| recording | bayes | best peer | ratio |", "|---|---:|---|---:|"]
    ratios = []
    for file, methods in found.items():
        ours = methods["bayes"].median_evaluations_to(NEAR) if "bayes" in methods else None
        peers = {m: s.median_evaluations_to(NEAR) for m, s in methods.items() if m not in OURS}
        reached = {m: n for m, n in peers.items() if n is not None}
        if ours is None or not reached:
            continue
        best = min(reached, key=lambda m: reached[m])
        ratios.append(ours / reached[best])
        lines.append(f"| {file} | {ours:g} | {best} {reached[best]:g} | {ratios[-1]:.2f} |")
    if not ratios:
        return []
    return [*lines, "", f"Geometric mean of the ratios: {float(np.exp(np.mean(np.log(ratios)))):.2f}."]


def _write(
    path: Path,
    searches: dict[str, dict[str, list[Search]]],
    wanted: Counter[tuple[str, str]],
    repeats: int,
    budget: int,
) -> str:
    """Write table, JSON and curves of the methods whose ``wanted`` searches are done to ``path`` with the suffix of
    each, and return the table."""
    from autosched.replay.curves import draw_curves

    found = {
        file: {
            m: Searches(m, budget, tuple(methods[m])) for m in METHODS if len(methods.get(m, ())) == wanted[file, m] > 0
        }
        for file, methods in searches.items()
    }
    now = datetime.now(UTC)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = summary(found, repeats, budget, now)
    Path(f"{path}.md").write_text(text, encoding="utf-8")
    recordings = {
        file: [{key: v for key, v in searches_json(made).items() if key != "searches"} for made in methods.values()]
        for file, methods in found.items()
    }
    document = {"date": f"{now:%Y-%m-%d}", "repeats": repeats, "budget": budget, "recordings": recordings}
    Path(f"{path}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    drawn = [(file, list(methods.values())) for file, methods in found.items() if methods]
    draw_curves(drawn, Path(f"{path}.png"))
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run all searches and write the results."""
    parser = argparse.ArgumentParser(description="Search quality on recorded spaces.")
    parser.add_argument("folder", help="a folder with caches of Kernel Tuner (*.json.gz)")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--budget", type=int, default=200)
    parser.add_argument(
        "--methods", nargs="+", default=list(METHODS), metavar="M", help="M, M@FILE, M:SEARCHES (default: all)"
    )
    parser.add_argument("--files", nargs="+", default=None, metavar="F", help="names without .json.gz (default: all)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--name", default="search_quality", help="of the written files")
    parser.add_argument("--journal", type=Path, default=None, help="searches are added here, and not made again")
    given = parser.parse_args(arguments)
    files = sorted(Path(given.folder).glob("*.json.gz"))
    if given.files is not None:
        files = [f for f in files if _name(str(f)) in given.files]
    if not files:
        print(f"search_quality: {given.folder} holds no such *.json.gz", file=sys.stderr)
        return 2
    try:
        todo = jobs(files, given.methods, given.repeats, given.budget)
        done = _journal(given.journal)
    except ValueError as error:
        print(f"search_quality: {error}", file=sys.stderr)
        return 2
    found: dict[str, dict[str, list[Search]]] = {_name(str(f)): {} for f in files}
    wanted = Counter((_name(job.file), job.method) for job in todo)
    text = ""
    with ProcessPoolExecutor(given.workers) as pool:
        made = pool.map(run, [job for job in todo if _key(job) not in done], chunksize=max(given.repeats // 2, 1))
        for following, job in zip([*todo[1:], None], todo, strict=True):
            if (found_here := done.get(_key(job))) is None:
                _, found_here = next(made)
                _note(given.journal, job, found_here)
            found[_name(job.file)].setdefault(job.method, []).append(found_here)
            if following is None or following.method != job.method:
                print(f"{datetime.now():%H:%M} {job.method}", file=sys.stderr, flush=True)
                text = _write(given.results / given.name, found, wanted, given.repeats, given.budget)
    print(text)
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
