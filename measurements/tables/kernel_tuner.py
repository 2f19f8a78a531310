"""Read files of Kernel Tuner: caches, which have every configuration of a run, and results in the FAIR "T4" format.

A killed run leaves a truncated cache, which is read up to its last complete configuration. Times are in milliseconds in
both formats.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from measurements.files.bounded import parse_json
from measurements.files.text import one_line
from measurements.tables.table import ESTIMATED, Row, Table, TableError, table_of
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.recording import MOST_BYTES, refuse_bomb

_CHUNK = 1 << 20  # bytes
_GZIP = b"\x1f\x8b"
_HEAD = 1 << 10
_NO_TIME = 1e19  # a time above this value marks a failure; older caches store 1e20 for a failure
# status of a failed configuration, by a lower-case word in its error text; files have this text in place of the time
_FAILURES = {
    "compil": Status.COMPILE_ERROR,
    "timeout": Status.TIMEOUT,
    "correctness": Status.WRONG_RESULT,
    "verif": Status.WRONG_RESULT,
    "invalid": Status.OUT_OF_RESOURCES,
    "constraint": Status.OUT_OF_RESOURCES,
}


def text_of(path: str | Path) -> tuple[str, bool]:
    """Return the text of a plain or gzip file, and whether the file is complete.

    Raises OSError, and TableError if the file is not text, or larger than MOST_BYTES after decompression.
    """
    with open(path, "rb") as file:
        head = file.peek()[:_HEAD]
        # read no further, because a device file may never end
        if head[:2] != _GZIP and not head.lstrip().startswith(b"{"):
            return head.decode(errors="replace"), True
        packed = file.read(MOST_BYTES + 1)
    whole = True
    content: bytes | bytearray = packed
    if content[:2] == _GZIP:
        try:
            content, whole = _unpacked(packed)
        except ValueError as error:
            raise TableError(f"invalid recording {path}: {error}") from None
    if len(content) > MOST_BYTES:
        raise TableError(f"{path} has more than {MOST_BYTES:,} bytes after decompression: give a smaller recording")
    try:
        return content.decode(), whole
    except UnicodeDecodeError as error:
        if whole or error.end < len(content):
            raise TableError(f"{path} is not text: give a recording") from None
        return content[: error.start].decode(), whole


def _unpacked(content: bytes) -> tuple[bytes | bytearray, bool]:
    """Decompress at most MOST_BYTES + 1 bytes of a gzip file. Return them, and whether the file is complete."""
    unpacked = bytearray()
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        try:
            # read in chunks, so that the data before an error are kept
            while len(unpacked) <= MOST_BYTES and (part := file.read1(_CHUNK)):
                unpacked += part
                refuse_bomb(len(content), len(unpacked))
        except (EOFError, gzip.BadGzipFile, zlib.error):
            return unpacked, False
    return unpacked, True


def read_cache(path: str | Path, text: str) -> Table:
    """Return the table in the text of a cache file. Raises TableError if the text is not a cache."""
    document, cut = _document(text)
    cache = document.get("cache")
    if not isinstance(cache, dict):
        raise TableError(f"{path} is not a cache of Kernel Tuner: it has no configurations")
    keys = document.get("tune_params_keys")
    if not isinstance(keys, list) or not keys or not all(isinstance(key, str) for key in keys):
        raise TableError(f"{path} is not a cache of Kernel Tuner: tune_params_keys does not list the parameters")
    kernel = _named(document, "kernel_name", "kernel")
    rows = []
    for number, entry in cache.items():
        if not isinstance(entry, dict) or any(key not in entry for key in keys):
            raise TableError(f"{path}: the configuration {number!r} has no value for some parameter")
        rows.append(Row(kernel, _configuration(path, {key: entry[key] for key in keys}), _cached(entry)))
    notes = (f"{path} is truncated: {len(rows)} complete configurations were read",) if cut else ()
    return _table(path, _named(document, "device_name", "unknown device"), rows, notes)


def read_t4(path: str | Path, text: str) -> Table:
    """Return the table in the text of a T4 file. Raises TableError if the text is not a T4 document."""
    try:
        document = parse_json(text)
    except ValueError as error:
        raise TableError(f"{path} is not JSON: {error}") from None
    results = document.get("results") if isinstance(document, dict) else None
    if not isinstance(results, list) or not results:
        raise TableError(f"{path} is not a T4 file: it has no results")
    t4_metadata = document.get("metadata")
    metadata = t4_metadata if isinstance(t4_metadata, dict) else {}
    kernel = _named(metadata, "kernel", "kernel")
    rows = []
    for number, result in enumerate(results, 1):
        configuration = result.get("configuration") if isinstance(result, dict) else None
        if not isinstance(configuration, dict):
            raise TableError(f"{path}: result {number} has no configuration")
        try:
            measured = _result(result)
        except ValueError as error:
            raise TableError(f"{path}: result {number} {error}") from None
        rows.append(Row(kernel, _configuration(path, configuration), measured))
    estimated = metadata.get("provenance") == Provenance.ESTIMATED
    return _table(path, _named(metadata, "device", "unknown device"), rows, (ESTIMATED,) if estimated else ())


def to_t4(
    rows: Sequence[tuple[Mapping[str, Any], Measurement, str]],
    metadata: Mapping[str, Any],
    *,
    metrics: Sequence[Mapping[str, float]] | None = None,
    objectives: Sequence[str] = ("time",),
) -> dict[str, Any]:
    """Return measured configurations as a T4 document.

    Args:
        rows: One tuple per configuration: its values by parameter name, the measurement, and the date and time (ISO
            8601).
        metadata: Metadata of the document. ``read_t4`` uses ``kernel``, ``device`` and ``provenance``.
        metrics: Metrics of each row, by name; None for no metrics.
        objectives: Names of the measurements that the search minimised.

    Raises:
        ValueError: The numbers of rows and metrics differ.
    """
    return {
        "schema_version": "1.0.0",
        "metadata": dict(metadata),
        "results": [
            _as_result(*row, further, objectives)
            for row, further in zip(rows, metrics or [{}] * len(rows), strict=True)
        ],
    }


def _document(text: str) -> tuple[dict[str, Any], bool]:
    """Return the JSON object of a cache (empty if the text is not an object), and whether the text was truncated."""
    candidates = [text, text.rstrip().rstrip(",") + "}}"]
    end = text.rfind("}")
    while end > 0 and len(candidates) < 6:
        candidates.append(text[: end + 1] + "}}")
        end = text.rfind("}", 0, end)
    for number, candidate in enumerate(candidates):
        try:
            document = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        return (document, number > 0) if isinstance(document, dict) else ({}, False)
    return {}, False


def _named(document: Mapping[str, Any], key: str, otherwise: str) -> str:
    value = document.get(key)
    return one_line(value) if isinstance(value, str) and value.strip() else otherwise


def _configuration(path: str | Path, raw: Mapping[str, Any]) -> dict[str, Any]:
    for name, value in raw.items():
        if not isinstance(value, (bool, int, float, str)) or (isinstance(value, float) and not math.isfinite(value)):
            raise TableError(f"{path}: the parameter {name} cannot be {value!r}: use a number or a text")
    return dict(raw)


def _cached(entry: Mapping[str, Any]) -> Measurement:
    return _measured(entry.get("time"), entry.get("times"), str(entry.get("time")), 1e-3)


def _measured(time: Any, times: Any, reason: str, unit: float) -> Measurement:
    if not _is_time(time) or not float(time) * unit > 0:
        status = next((s for part, s in _FAILURES.items() if part in reason.lower()), Status.LAUNCH_ERROR)
        return Measurement(status, Provenance.REPLAYED, reason or "it failed")
    seconds = float(time) * unit
    timing = Timing(seconds, seconds, seconds, 1)
    raw = [t * unit for t in times if _is_time(t)] if isinstance(times, list) else []
    if raw:  # the file has only the statistic that the search minimised, usually a mean
        raw.sort()
        timing = Timing(seconds, raw[len(raw) // 4], raw[3 * len(raw) // 4], len(raw))
    return Measurement(Status.OK, Provenance.REPLAYED, timing=timing)


def _is_time(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < _NO_TIME


_UNITS = {"s": 1.0, "seconds": 1.0, "ms": 1e-3, "milliseconds": 1e-3, "us": 1e-6, "ns": 1e-9}


def _result(result: Mapping[str, Any]) -> Measurement:
    """Return the measurement named "time" of a T4 result; if it is missing, the objective's measurement.

    Raises:
        ValueError: The objective is not a time.
    """
    wanted, measurements = result.get("objectives"), result.get("measurements")
    objective = wanted[0] if isinstance(wanted, list) and wanted else "time"
    measured = [m for m in measurements if isinstance(m, dict)] if isinstance(measurements, list) else []
    time = next((m for name in ("time", objective) for m in measured if m.get("name") == name), {})
    invalidity = result.get("invalidity", "correct")
    unit = str(time.get("unit") or ("ms" if time.get("name", "time") == "time" else "no unit"))
    if unit not in _UNITS and invalidity == "correct":
        raise ValueError(f"has {time.get('name')} in {unit}, which is not a time: give a file with times")
    times = result.get("times")
    runtimes = times.get("runtimes") if isinstance(times, dict) else None
    value = time.get("value") if invalidity == "correct" else None
    return _measured(value, runtimes, str(invalidity), _UNITS.get(unit, 1.0))


_INVALIDITY = {
    Status.COMPILE_ERROR: "compile",
    Status.COMPILE_TIMEOUT: "timeout",
    Status.TIMEOUT: "timeout",
    Status.WRONG_RESULT: "correctness",
    Status.OUT_OF_RESOURCES: "constraints",
}


def _as_result(
    configuration: Mapping[str, Any],
    measured: Measurement,
    when: str,
    metrics: Mapping[str, float],
    objectives: Sequence[str],
) -> dict[str, Any]:
    timing = measured.timing
    milliseconds = [] if timing is None else [1e3 * timing.median]
    return {
        "timestamp": when,
        "configuration": dict(configuration),
        "objectives": list(objectives),
        "times": {
            "compilation_time": 1e3 * (measured.compile_seconds or 0.0),
            "framework": 0,
            "search_algorithm": 0,
            "validation": 0,
            "runtimes": milliseconds,
        },
        "invalidity": "correct" if timing is not None else _INVALIDITY.get(measured.status, "runtime"),
        "correctness": 0 if measured.status is Status.WRONG_RESULT else 1,
        "measurements": [
            *({"name": "time", "value": value, "unit": "ms"} for value in milliseconds),
            *({"name": name, "value": value, "unit": unit} for name, value, unit in _other_measurements(measured)),
            *({"name": name, "value": value, "unit": ""} for name, value in metrics.items()),
        ],
    }


def _other_measurements(measured: Measurement) -> list[tuple[str, float, str]]:
    """Return the resources of a configuration, and its power if measured."""
    measurements: list[tuple[str, float, str]] = []
    if measured.resources is not None:
        r = measured.resources
        measurements.append(("registers", r.registers, ""))
        measurements.append(("spill", r.spill_store_bytes + r.spill_load_bytes, "bytes"))
        measurements.append(("shared_memory", r.static_shared_bytes + r.dynamic_shared_bytes, "bytes"))
    if measured.watts is not None and measured.timing is not None:
        measurements.append(("power", measured.watts, "W"))
        measurements.append(("energy", measured.watts * measured.timing.median, "J"))
    return measurements


def _table(path: str | Path, device: str, rows: Sequence[Row], notes: Sequence[str]) -> Table:
    try:
        return table_of(device, rows, notes)
    except ValueError as error:  # a row or a parameter is invalid
        raise TableError(f"{path}: {error}") from None
