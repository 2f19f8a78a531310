"""Measure the times of look-ups and merges in large databases.

    python -m benchmarks.overhead.store_size 1000000 [--problems N] [--load] [--folder F]
    python -m benchmarks.overhead.store_size 100000 --merge --problems 100

Creates a database of the given number of trials (2.3 GB for a million). Measures ``Store.best`` and ``Database.best``,
both for an unchanged database and right after a commit. Also measures opening the database with a first look-up. Each
time is a median of 200. ``--load`` also loads all trials of one problem. With ``--merge``, two databases that share
half of their problems are merged instead. Prints JSON with CPU times (``_cpu``) and wall-clock times.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from autosched.dispatch.database import Database
from measurements.store import best_index, schema
from measurements.store import rows as store_rows
from measurements.store.merge import merge
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Resources, Status, Timing
from measurements.trials.trial import Trial
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul

_BATCH = 10_000


def fill(path: Path, trials: int, problems: int, first: int = 0) -> list[Matmul]:
    """Return a database with ``trials`` random trials of ``problems`` problems, numbered from ``first`` on."""
    random, h200 = Random(1 + first), device("h200")
    matmuls = [Matmul(m=64 * (1 + first + i), n=64, k=64) for i in range(problems)]
    schedules = template("matmul").space(matmuls[0], h200).sample(512, 0)
    with Store.open(path) as store:
        for start in range(0, trials, _BATCH):
            rows = []
            for i in range(start, min(trials, start + _BATCH)):
                schedule_number = i // problems  # only the first schedules are valid; give these the shortest times
                seconds = random.uniform(1e-5, 2e-5) * (1 if schedule_number < len(schedules) else 10)
                schedule = schedules[schedule_number % len(schedules)]
                if schedule_number >= len(schedules):
                    schedule = schedule.replace(split_k=100 + schedule_number)
                rows.append(
                    store_rows.to_row(
                        Trial(
                            problem_key=matmuls[i % problems].key(),
                            schedule=schedule,
                            device="h200",
                            fingerprint='{"device":"h200","sm":"sm_90a","toolchain":"nvrtc 13.0.88"}',
                            template_version="v1",
                            space_version="s1",
                            kernel_digest=f"{first + i:064x}",
                            measurement=Measurement(
                                Status.OK,
                                Provenance.MEASURED,
                                timing=Timing(seconds, seconds * 0.99, seconds * 1.01, 30),
                                resources=Resources(96, 0, 0, 0, 32, 49152),
                                compile_seconds=0.5,
                            ),
                            toolchain="nvrtc 13.0.88",
                            driver="580.65",
                            autosched_version="0.1.0",
                            created=datetime(2026, 1, 1, tzinfo=UTC),
                            sampler="evolution",
                            seed=0,
                        )
                    )
                )
            with store.writing() as connection:
                connection.execute(schema.TRIALS.insert(), rows)
        with store.writing() as connection:
            best_index.rebuild(connection, store.name)
    return matmuls


def medians(name: str, call: Callable[[], object], repeats: int = 200) -> dict[str, float]:
    """Return the median CPU and wall-clock milliseconds."""
    wall, cpu = [], []
    for _ in range(repeats):
        began, spent = time.perf_counter(), time.process_time()
        call()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - spent)
    milliseconds = (statistics.median(wall), statistics.median(cpu), min(cpu))
    return {f"{name}_ms{kind}": 1e3 * t for kind, t in zip(("", "_cpu", "_cpu_least"), milliseconds, strict=True)}


def seconds(name: str, call: Callable[[], object]) -> dict[str, float]:
    """Return the seconds of one call."""
    began, spent = time.perf_counter(), time.process_time()
    call()
    return {f"{name}_s": time.perf_counter() - began, f"{name}_s_cpu": time.process_time() - spent}


def look_ups(path: Path, one: Matmul) -> dict[str, float]:
    """Measure look-ups in an unchanged database, and right after commits, when results are not cached."""
    times: dict[str, float] = {}
    for state in ("at_rest", "being_written"):
        store, database = Store.open(path, create=False), Database(path)
        with_time = time.time() - (60 if state == "at_rest" else -60)
        os.utime(path, (with_time, with_time))
        times |= medians(f"store_best_{state}", partial(store.best, one, "h200"))
        times |= medians(f"database_best_{state}", partial(database.best, one, "h200"))
    return times | medians("open_and_best", lambda: Database(path).best(one, "h200"), 20)


def merged(folder: Path, trials: int, problems: int) -> dict[str, Any]:
    """Merge two databases that have half of their problems in common, and return the time of the merge."""
    fill(folder / "mine.db", trials, problems)
    fill(folder / "theirs.db", trials, problems, first=problems // 2)
    with Store.open(folder / "theirs.db", create=False) as source, Store.open(folder / "mine.db") as target:
        times: dict[str, Any] = seconds("merge", lambda: merge(source, target))
        return times | {"after": target.count()}


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.overhead.store_size", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("trials", type=int)
    parser.add_argument("--problems", type=int, default=1)
    parser.add_argument("--load", action="store_true", help="also load all trials of one problem")
    parser.add_argument("--merge", action="store_true", help="instead, merge two databases of this size")
    parser.add_argument(
        "--folder", help="folder in which the databases are created and kept (default: a temporary folder)"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.folder or temporary)
        results: dict[str, Any] = {"trials": options.trials, "problems": options.problems}
        if options.merge:
            results |= merged(folder, options.trials, options.problems)
        else:
            problems = fill(folder / "large.db", options.trials, options.problems)
            one = problems[len(problems) // 2]
            results |= {"bytes": (folder / "large.db").stat().st_size, **look_ups(folder / "large.db", one)}
            if options.load:
                store = Store.open(folder / "large.db", create=False)
                results |= seconds("load", lambda: store.trials(one, "h200", Provenance.MEASURED))
        results["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
