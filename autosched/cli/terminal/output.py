"""Print answers to stdout, messages about the run to stderr, and with --json one JSON document to stdout.

Every command imports this module. Tables and styles are in ``console.py``, which imports rich.
"""

import json
import logging
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from measurements.files.text import harmless, without_password


def say(sentence: str) -> None:
    """Print one line about the run to stderr."""
    print("autosched: " + " ".join(without_password(harmless(sentence)).split()), file=sys.stderr)


def answer(line: str) -> None:
    """Print one line of the answer to stdout, with control sequences escaped."""
    print(without_password(harmless(line)))


@contextmanager
def library_log_shown() -> Iterator[None]:
    """Within the block, show autosched's log on stderr, for example messages about a locked database."""
    library, handler = logging.getLogger("measurements"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("autosched: %(message)s"))
    level = library.level
    library.addHandler(handler)
    library.setLevel(logging.INFO)
    try:
        yield
    finally:
        library.setLevel(level)
        library.removeHandler(handler)


def print_json(document: Mapping[str, Any]) -> None:
    """Print one JSON document to stdout. Non-finite numbers become the strings "inf", "-inf" and "nan"."""
    print(json.dumps(_finite(document), indent=2, allow_nan=False), flush=True)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Mapping):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_finite(v) for v in value]
    return value
