"""Compare autosched's searches with other tuners on recorded spaces.

    python -m benchmarks.search.search_quality FOLDER [--repeats 20] [--budget 200] [--methods M[@FILE][:N] ...]
        [--files F ...] [--journal FILE] [--results FOLDER] [--name search_quality]

FOLDER has Kernel Tuner caches (``*.json.gz``). The first visit of a recorded configuration is one evaluation, even if
the configuration failed. Methods may only visit recorded configurations. ``search_methods`` describes the methods.
``M@FILE`` runs the method M only on the recording FILE, and ``M@FILE:N`` runs N searches. Tables and curves are written
to ``NAME.{md,json,png}`` in the folder ``build``. Searches that are already in ``--journal`` are not repeated. A search
stops at the optimum. Kernel Tuner is installed by the extra ``benchmark``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from autosched.cli.commands.replay import QUALITIES, searches_json
from autosched.replay.search import NEAR, Search, Searches
from benchmarks.search.search_methods import METHODS, OURS, Job, run

AFTER = (50, 100, 200)
RESULTS = Path("build")  # only the last table is committed as a results page


def jobs(files: Sequence[Path], methods: Sequence[str], repeats: int, budget: int) -> list[Job]:
    """Return all searches, method by method.

    ``METHOD@RECORDING`` runs a method on one recording only, and ``METHOD@RECORDING:N`` runs N searches instead of
    ``repeats``.

    Raises ValueError for an unknown method or recording, or if no number follows the colon.
    """
    named = {_name(str(f)): f for f in files}
    all_jobs = []
    for text in methods:
        spec, _, number = text.partition(":")
        method, _, only = spec.partition("@")
        if number and not number.isdecimal():
            raise ValueError(f"invalid number of searches in {text!r}: write METHOD:N")
        if method not in METHODS:
            raise ValueError(f"unknown method {method!r}: use one of {', '.join(METHODS)}")
        if only and only not in named:
            raise ValueError(f"unknown recording {only!r} for {method}: use one of {', '.join(named)}")
        for file in [named[only]] if only else files:
            all_jobs += [Job(str(file), method, seed, budget) for seed in range(int(number or repeats))]
    return all_jobs


Key = tuple[str, str, int, int]


def _key(job: Job) -> Key:
    return _name(job.file), job.method, job.seed, job.budget


def _journal(path: Path | None) -> dict[Key, Search]:
    """Return the searches of a journal.

    Raises:
        ValueError: A complete line is not a search. An incomplete last line is ignored.
    """
    finished = dict[Key, Search]()
    if path is None or not path.exists():
        return finished
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            file, method, seed, budget, quality = json.loads(line)
            finished[str(file), str(method), int(seed), int(budget)] = Search(seed, tuple(map(float, quality)), 0.0)
        except (ValueError, TypeError):
            raise ValueError(f"line {number} of {path} is not a search: give another --journal") from None
    if lines[-1]:
        path.write_text("".join(f"{line}\n" for line in lines[:-1]), encoding="utf-8")
    return finished


def _note(path: Path | None, job: Job, search: Search) -> None:
    if path is not None:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(json.dumps([*_key(job), search.quality]) + "\n")


def _name(file: str) -> str:
    return Path(file).name.removesuffix(".json.gz")


def summary(by_file: dict[str, dict[str, Searches]], repeats: int, budget: int, now: datetime) -> str:
    """Return the tables as Markdown. ``by_file`` has the searches of each method, by file."""
    lines = [
        "# Search quality on recorded spaces",
        "",
        "`python -m benchmarks.search.search_quality`. Its docstring explains the procedure and the tuners.",
        f"Up to {repeats} searches of {budget} evaluations each, {now:%Y-%m-%d}, on {os.cpu_count()} cores "
        f"({platform.machine()}), without a GPU: the times are recorded.",
        "",
    ]
    after = [n for n in AFTER if n <= budget] or [budget]
    for file, methods in by_file.items():
        lines += [
            f"## {file}",
            "",
            "| method | searches | to 90% | to 95% | to 99% | " + " | ".join(f"after {n}" for n in after) + " |",
            "|---|" + "---:|" * (4 + len(after)),
        ]
        for method, searches in methods.items():
            medians = [searches.median_evaluations_to(q) for q in QUALITIES]
            cells = [f"over {budget}" if m is None else f"{m:g}" for m in medians]
            cells += [f"{searches.quartiles(n)[1]:.3f}" for n in after]
            lines.append(f"| {method} | {len(searches.searches)} | " + " | ".join(cells) + " |")
        missing = [method for method in METHODS if method not in methods]
        lines += ["", f"Not run: {', '.join(missing)}.", ""] if missing else [""]
    lines += [*_against_best_peer(by_file, budget), ""]
    return "\n".join(lines)


def _against_best_peer(by_file: dict[str, dict[str, Searches]], budget: int) -> list[str]:
    lines = ["## bayes compared with the best other tuner", ""]
    lines += ["Median number of evaluations until a schedule reaches 95% of the optimum's speed; fewer is better.", ""]
    lines += ["| recording | bayes | best other tuner | ratio |", "|---|---:|---|---:|"]
    ratios = []
    for file, methods in by_file.items():
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
    planned: Counter[tuple[str, str]],
    repeats: int,
    budget: int,
) -> str:
    """Write the tables, JSON and curves of all finished methods, and return the tables.

    A method is finished when all its ``planned`` searches are done. Files have the name ``path`` and the suffix of
    their format.
    """
    from autosched.replay.curves import draw_curves

    by_file = {
        file: {
            m: Searches(m, budget, tuple(methods[m]))
            for m in METHODS
            if len(methods.get(m, ())) == planned[file, m] > 0
        }
        for file, methods in searches.items()
    }
    now = datetime.now(UTC)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = summary(by_file, repeats, budget, now)
    Path(f"{path}.md").write_text(text, encoding="utf-8")
    recordings = {
        file: [
            {key: v for key, v in searches_json(method_searches).items() if key != "searches"}
            for method_searches in methods.values()
        ]
        for file, methods in by_file.items()
    }
    document = {"date": f"{now:%Y-%m-%d}", "repeats": repeats, "budget": budget, "recordings": recordings}
    Path(f"{path}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    drawn = [(file, list(methods.values())) for file, methods in by_file.items() if methods]
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
    parser.add_argument("--name", default="search_quality", help="base name of the written files")
    parser.add_argument(
        "--journal",
        type=Path,
        default=None,
        help="file to which searches are appended; searches in it are not repeated",
    )
    options = parser.parse_args(arguments)
    files = sorted(Path(options.folder).glob("*.json.gz"))
    if options.files is not None:
        files = [f for f in files if _name(str(f)) in options.files]
    if not files:
        print(f"search_quality: {options.folder} has no matching *.json.gz: name another folder", file=sys.stderr)
        return 2
    try:
        todo = jobs(files, options.methods, options.repeats, options.budget)
        done = _journal(options.journal)
    except ValueError as error:
        print(f"search_quality: {error}", file=sys.stderr)
        return 2
    by_file: dict[str, dict[str, list[Search]]] = {_name(str(f)): {} for f in files}
    planned = Counter((_name(job.file), job.method) for job in todo)
    text = ""
    # A forked worker would hang in OpenMP if this process has already used it.
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        results = pool.map(run, [job for job in todo if _key(job) not in done], chunksize=max(options.repeats // 2, 1))
        for following, job in zip([*todo[1:], None], todo, strict=True):
            if (result := done.get(_key(job))) is None:
                _, result = next(results)
                _note(options.journal, job, result)
            by_file[_name(job.file)].setdefault(job.method, []).append(result)
            if following is None or following.method != job.method:
                print(f"{datetime.now():%H:%M} {job.method}", file=sys.stderr, flush=True)
                text = _write(options.results / options.name, by_file, planned, options.repeats, options.budget)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
