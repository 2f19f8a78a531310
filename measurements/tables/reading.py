"""Read a file of measurements as a table: a Kernel Tuner cache, T4 results, a recording or a database of autosched."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from measurements.store.sqlite_header import is_sqlite
from measurements.tables.kernel_tuner import read_cache, read_t4, text_of
from measurements.tables.table import ESTIMATED, Row, Table, TableError, table_of
from measurements.trials.measurement import Provenance
from measurements.trials.recording import RecordingError, read
from measurements.trials.trial import Trial
from measurements.trials.vendor_library import is_library


def read_table(path: str | Path) -> Table:
    """Return the table in a file, which may be compressed by gzip.

    A truncated file is read up to its last complete configuration, if the format allows it.

    Raises TableError if the file is missing, has an unknown format, or contains no times.
    """
    path = Path(path)
    if path.is_fifo():  # a pipe can only be read once, but the file is read several times
        raise TableError(f"{path} is a pipe: give a file")
    try:
        if is_sqlite(path):
            return _database(path)
        text, whole = text_of(path)
    except OSError as error:
        raise TableError(f"{path} cannot be read ({error.strerror})") from None
    first = text.lstrip()[:1]
    if first != "{":
        raise TableError(
            f"{path} is not a recording: give a Kernel Tuner cache, a T4 file, or a recording or database of autosched"
        )
    if text.lstrip().startswith('{"recording"'):
        return _recording(path)
    if _is_t4(text):
        return read_t4(path, text)
    table = read_cache(path, text)
    if not whole and not table.notes:
        raise TableError(f"{path} is damaged: it is not a complete gzip file")
    return table


def _is_t4(text: str) -> bool:
    if '"results"' not in text:
        return False
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return '"cache"' not in text  # a truncated cache is not valid JSON, but contains this key
    return isinstance(document, dict) and "results" in document and "cache" not in document


def _database(path: Path) -> Table:
    # imported here because the store imports sqlalchemy, which the other formats do not need
    from measurements.store.store import Store, StoreError

    try:
        with Store.open(path, create=False) as store:
            problems = store.problems()
            if len(problems) != 1:
                raise TableError(
                    f"{path} has trials of {len(problems)} combinations of problem, device and provenance: give a "
                    "database with only one combination"
                )
            trials = store.trials()
    except StoreError as error:
        raise TableError(str(error)) from None
    return _of_trials(path, trials)


def _recording(path: Path) -> Table:
    try:
        recordings = read(path)
    except RecordingError as error:
        raise TableError(str(error)) from None
    origins = {(r.problem_key, r.device) for r in recordings}
    if len(origins) > 1:
        raise TableError(f"{path} has recordings of {len(origins)} problems or devices: give them in separate files")
    return _of_trials(path, [trial for recording in recordings for trial in recording.trials])


def _of_trials(path: Path, trials: Sequence[Trial]) -> Table:
    """Convert the trials of one problem on one device to a table."""
    rows = [
        Row(r.schedule.template, dict(r.schedule.items), r.measurement) for r in trials if not is_library(r.schedule)
    ]
    operator = trials[0].operator or "problem"
    estimated = any(r.provenance is Provenance.ESTIMATED for r in trials)
    try:
        table = table_of(trials[0].device, rows, (ESTIMATED,) if estimated else ())
    except ValueError as error:  # from the table, or from an invalid parameter
        raise TableError(f"{path}: {error}") from None
    return Table(str(operator), table.device, table.parameters, table.measurements, table.notes)
