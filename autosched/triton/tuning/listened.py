"""Tunings of a program's ``@triton.autotune`` kernels, recorded by Triton's listener (3.9 and newer).

The file has a line of JSON for each tuning, with the function, the values of ``key``, the times of the configurations,
and the best configuration. Several processes may write to one file.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from triton import knobs

from autosched.triton.tuning.function import TritonFunction
from measurements.files.bounded import read_bounded

MOST_BYTES = 1 << 26


class NoRecordedTuning(ValueError):
    """The file contains no usable tuning. The message is one line."""


@contextmanager
def recording(path: str | Path) -> Iterator[None]:
    """Within the context, append each tuning of an ``@triton.autotune`` kernel to the file ``path``.

    A listener that the program has already set is still called.

    Raises RuntimeError if this version of Triton has no listener, and OSError if the file cannot be written.
    """
    if not hasattr(knobs.autotuning, "listener"):
        raise RuntimeError("this version of Triton has no autotuning listener: install 3.9 or newer")
    before = knobs.autotuning.listener
    with open(path, "ab", buffering=0) as file:

        def record(**values: Any) -> None:
            if before is not None:
                before(**values)
            # write the line at once, so that lines of several processes do not mix
            os.write(file.fileno(), _line(**values))

        knobs.autotuning.listener = record
        try:
            yield
        finally:
            knobs.autotuning.listener = before


def _line(
    *, fn: Any, key: tuple[Any, ...], best_config: Any, configs_timings: Mapping[Any, Any] | None, **more: Any
) -> bytes:
    times = configs_timings or {}
    document = {
        "function": fn.fn.__name__,
        "file": fn.fn.__code__.co_filename,
        "key": [value if isinstance(value, (int, float, str)) else str(value) for value in key],
        "best": best_config.all_kwargs(),
        "milliseconds": [[config.all_kwargs(), _median(time)] for config, time in times.items()],
        "seconds": more.get("duration"),
        "cached": bool(more.get("cache_hit")),
    }
    return json.dumps(document, default=str).encode() + b"\n"


def _median(time: Any) -> float:
    """Return the median time, which is the first of the autotuner's quantiles."""
    return float(time[0] if isinstance(time, (list, tuple)) else time)


def read(path: str | Path, function: TritonFunction) -> list[dict[str, int]]:
    """Return the sizes for which ``function`` was tuned, by their names in ``key``, the most frequent sizes first.

    Raises NoRecordedTuning if the file has no tuning of ``function``, and OSError if it cannot be read.
    """
    if not function.keys:
        raise NoRecordedTuning(f"{function.name} has no @triton.autotune with a key, so nothing was recorded for it")
    try:
        lines = read_bounded(path, MOST_BYTES).decode().splitlines()
        documents = [json.loads(line) for line in lines if line.strip()]
    except (ValueError, RecursionError) as error:
        raise NoRecordedTuning(f"{path} was not written by a listener: {' '.join(str(error).split())}") from error
    counts: Counter[tuple[tuple[str, int], ...]] = Counter()
    distinct: dict[str, None] = {}
    for document in documents:
        if not isinstance(document, dict) or not isinstance(document.get("key"), list):
            raise NoRecordedTuning(f"{path} was not written by a listener: one of its lines has no key")
        if document.get("function") != function.name:
            distinct[str(document.get("function"))] = None
            continue
        values = document["key"][: len(function.keys)]
        if len(values) == len(function.keys) and all(type(value) is int for value in values):
            counts[tuple(zip(function.keys, values, strict=True))] += 1
    if not counts:
        contents = f"it has {', '.join(distinct)}" if distinct else "no recorded key consists of whole numbers"
        raise NoRecordedTuning(f"{path} has no tuning of {function.name}: {contents}")
    return [dict(sizes) for sizes, _ in counts.most_common()]
