"""Export a database's best trials to JSON files that people can read, compare and commit to a repository.

There is one file per device and operator, ``DEVICE.OPERATOR.json``. Entries are sorted by problem and provenance, keys
are sorted, and each value is on a separate line, so that a changed schedule gives a small diff.
``schemas/export.schema.json`` describes the format. An export contains only the best trial of each entry, and the
entry's limits for CI (``Guard``).
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from measurements.files.atomic_write import publish
from measurements.files.bounded import parse_json
from measurements.files.text import first_line, harmless, one_line
from measurements.store.store import Guard, Store
from measurements.trials.measurement import Provenance
from measurements.trials.trial import Trial

FORMAT = 1
SCHEMA = Path(__file__).resolve().parent / "schemas" / "export.schema.json"
MOST_BYTES = 2**26  # maximum size of a file in bytes; reading a file takes about twenty times as much memory
_LONGEST_PART = 100  # maximum length of each part of a file name: the device's name and the operator's name
_FILE_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+-]*(\.[A-Za-z0-9_+-]+)*", re.ASCII)


class ExportError(ValueError):
    """A file is not an export, or a database cannot be exported. The message is one printable sentence."""

    def __init__(self, message: str) -> None:
        super().__init__(harmless(message))


def documents(store: Store, operator: str | None = None, device: str | None = None) -> dict[str, dict[str, Any]]:
    """Return the documents of an export by file name, optionally for only one operator or device.

    Raises StoreError, and ExportError if a device or operator cannot be part of a file name.
    """
    documents_: dict[str, dict[str, Any]] = {}
    ordered = sorted(
        store.problems(operator), key=lambda s: (s.device, s.operator, s.problem_key, s.provenance, s.policy)
    )
    for summary in ordered:
        trial = store.best_of(summary) if device in (None, summary.device) else None
        if trial is None:
            continue
        for part in (summary.device, summary.operator):
            if len(part) > _LONGEST_PART or not _FILE_PART.fullmatch(part):
                raise ExportError(
                    f"{part!r:.60} cannot be part of a file name: export the other devices and operators by name"
                )
        document = documents_.setdefault(
            f"{summary.device}.{summary.operator}.json",
            {"export": FORMAT, "device": summary.device, "operator": summary.operator, "entries": []},
        )
        guard = store.guard_of(summary.problem_key, summary.device)
        best = trial.to_json()
        del best["id"]  # an id is only valid within its database
        document["entries"].append(
            {
                "best": best,
                "guard": None if guard is None else dataclasses.asdict(guard),
                "ok": summary.ok,
                "trials": summary.trials,
            }
        )
    return documents_


def text(document: Mapping[str, Any]) -> str:
    """Return the text of the file of a document. Equal documents have equal texts.

    Raises ExportError if a number is infinite or NaN, which only occurs in a manually edited database.
    """
    try:
        return json.dumps(document, indent=1, sort_keys=True, allow_nan=False) + "\n"
    except ValueError as error:
        raise ExportError(
            f"an entry of {document['operator']} on {document['device']} cannot be exported: {error}"
        ) from error


def write(
    store: Store, folder: str | os.PathLike[str], operator: str | None = None, device: str | None = None
) -> list[Path]:
    """Write the files of an export into a folder. Each file is written atomically and replaces an existing file.

    Args:
        store: Database, opened for reading.
        folder: Target folder, which is created if missing.
        operator: Operator to export; None for all.
        device: Name of the device to export; None for all.

    Returns: Paths of the written files.

    Raises:
        StoreError: The database cannot be read.
        ExportError: ``folder`` is not a folder, or a trial cannot be exported.
        OSError: A file cannot be written.
    """
    written = []
    target = Path(folder)
    for name, document in documents(store, operator, device).items():
        try:
            target.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise ExportError(
                f"{one_line(str(target))} is not a folder, or its parent does not exist: name a folder for the files"
            ) from error
        written.append(target / name)
        try:
            publish(written[-1], text(document).encode())
        except IsADirectoryError as error:
            raise ExportError(f"{one_line(str(written[-1]))} is a folder: remove it, or export elsewhere") from error
    return written


def read(paths: Iterable[str | os.PathLike[str]]) -> Store:
    """Return the entries of export files as an in-memory database.

    Raises ExportError if a file is not a valid export. The message names the file.
    """
    store = Store.open("sqlite://")
    for file_name in paths:
        path = Path(file_name)
        try:
            status = path.stat()
            # checked first, because opening a pipe would block, and a device file may never end
            if not stat.S_ISREG(status.st_mode):
                raise ExportError(f"{path} is not a regular file: give the files of an export")
            if status.st_size > MOST_BYTES:
                raise ExportError(f"{path} is larger than {MOST_BYTES:,} bytes: split it by operator")
            content = path.read_bytes()
        except OSError as error:
            raise ExportError(f"{path} cannot be read ({error.strerror}): name another file") from error
        try:
            document = parse_json(content, parse_constant=_no_number)
            entries = list(_entries(document))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise ExportError(f"{path} is not an export of autosched: {first_line(error)}") from error
        store.extend([trial for trial, _ in entries])
        for trial, guard in entries:
            if guard is not None:
                store.set_guard_of(trial.problem_key, trial.device, guard)
    return store


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a number")


def _entries(document: Any) -> Iterable[tuple[Trial, Guard | None]]:
    if not isinstance(document, dict) or "export" not in document:
        raise ValueError("the field 'export', which states the format of the file, is missing")
    if document["export"] != FORMAT:
        raise ValueError(
            f"the format is {document['export']!r:.20}, but this version of autosched reads {FORMAT}: upgrade autosched"
        )
    seen: set[tuple[str, Provenance, str]] = set()
    for entry in document["entries"]:
        trial = Trial.from_json({**entry["best"], "id": None})
        if not trial.ok:
            raise ValueError("the best trial of an entry has no time")
        if (trial.device, trial.operator) != (document["device"], document["operator"]):
            raise ValueError("the device or operator of an entry differs from the file's device or operator")
        key = trial.problem_key, trial.provenance, trial.policy
        if key in seen:
            raise ValueError(f"two entries have the same problem: {trial.problem_key}")
        seen.add(key)
        yield trial, None if entry["guard"] is None else Guard(**entry["guard"])
