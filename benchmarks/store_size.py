"""How long look-ups take in a large database: ``python -m benchmarks.store_size RECORDS [--problems N] [--folder F]``.

Writes a database of so many records (half a gigabyte for a million), then times ``Store.best``, ``Database.best`` and
opening with a look-up, as medians of 200, and loading all trials of one problem. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from autosched.database import Database
from measurements import store_entries, store_rows, store_schema
from measurements.measurement import Measurement, Provenance, Resources, Status, Timing
from measurements.record import Record
from measurements.store import Store
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul

_BATCH = 10_000


def fill(path: Path, records: int, problems: int) -> list[Matmul]:
    """A database of ``records`` random trials of ``problems`` problems."""
    random, h200 = Random(1), device("h200")
    made = [Matmul(m=64 * (1 + i), n=64, k=64) for i in range(problems)]
    schedules = template("matmul").space(made[0], h200).sample(512, 0)
    with Store.open(path) as store:
        store._enter_write_ahead()
        for start in range(0, records, _BATCH):
            rows = []
            for i in range(start, min(records, start + _BATCH)):
                turn = i // problems  # the valid schedules come first, and are the fastest
                seconds = random.uniform(1e-5, 2e-5) * (1 if turn < len(schedules) else 10)
                schedule = schedules[turn % len(schedules)]
                if turn >= len(schedules):
                    schedule = schedule.replace(split_k=100 + turn)
                rows.append(
                    store_rows.to_row(
                        Record(
                            problem_key=made[i % problems].key(),
                            schedule=schedule,
                            device="h200",
                            fingerprint='{"device":"h200","sm":"sm_90a","toolchain":"nvrtc 13.0.88"}',
                            template_version="v1",
                            space_version="s1",
                            kernel_digest=f"{i:064x}",
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
            with store._transaction(write=True) as connection:
                connection.execute(store_schema.TRIALS.insert(), rows)
        with store._transaction(write=True) as connection:
            store_entries.rebuild(connection, store.name)
    return made


def median_seconds(call: Callable[[], object], repeats: int = 200) -> float:
    took = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        took.append(time.perf_counter() - started)
    return statistics.median(took)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.store_size", description=__doc__.partition("\n")[0])
    parser.add_argument("records", type=int)
    parser.add_argument("--problems", type=int, default=1)
    parser.add_argument("--folder", help="where to put the database, which is kept (default: a temporary folder)")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(given.folder or temporary) / "large.db"
        problems = fill(path, given.records, given.problems)
        one = problems[len(problems) // 2]
        store, database = Store.open(path, create=False), Database(path)
        found = {
            "records": given.records,
            "problems": given.problems,
            "bytes": path.stat().st_size,
            "store_best_ms": 1e3 * median_seconds(lambda: store.best(one, "h200")),
            "database_best_ms": 1e3 * median_seconds(lambda: database.best(one, "h200")),
            "open_and_best_ms": 1e3 * median_seconds(lambda: Database(path).best(one, "h200"), 20),
        }
        started = time.perf_counter()
        loaded = store.trials(one, "h200", Provenance.MEASURED)
        found |= {"loaded": len(loaded), "load_s": time.perf_counter() - started}
        found["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
