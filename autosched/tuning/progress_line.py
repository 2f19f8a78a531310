"""How far a search is, in one line that is drawn again: on a terminal, and below a notebook's cell."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from autosched.tuning.result import Observer, Progress, Start
from measurements.files.text import harmless

REDRAWN_SECONDS = 0.2  # between two drawings: a terminal that is far away keeps up


class ProgressLine:
    """An observer that draws its line on ``stream``: trials, the best so far, failures, the time left."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0  # of what is drawn
        self._drawn = 0.0  # when

    def started(self, start: Start) -> None:
        """Draw the line before anything is tried."""
        self._draw(f"tuning {start.problem.operator} on {start.device.name}: 0/{start.trials}")

    def trial(self, progress: Progress) -> None:
        """Draw the line again, unless it was drawn just now."""
        if progress.done < progress.trials and time.monotonic() - self._drawn < REDRAWN_SECONDS:
            return
        parts = [f"{progress.done}/{progress.trials}"]
        if progress.best is not None and progress.best.seconds is not None:
            parts.append(f"best {progress.best.seconds * 1e6:.4g} us, {progress.best.provenance.value}")
        failed = sum(progress.failures.values())
        parts += [f"failed {failed}"] if failed else []
        parts += [f"{progress.seconds_left:.0f} s left"] if progress.done < progress.trials else []
        self._draw(", ".join(parts))

    def end(self) -> None:
        """Leave the last line as it is, and go on below it."""
        if self._width:
            self._stream.write("\n")
            self._stream.flush()
            self._width = 0

    def _draw(self, text: str) -> None:
        line = harmless(text)
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width, self._drawn = len(line), time.monotonic()


def is_redrawn(stream: TextIO) -> bool:
    """Tell whether a line on ``stream`` can be drawn again: on a terminal, and in a notebook."""
    return stream.isatty() or type(stream).__module__.startswith("ipykernel.")


@contextmanager
def shown(progress: Observer | bool | None) -> Iterator[Observer | None]:
    """Yield who is told of a search: ``progress`` itself, or for True a line on stderr where that can be redrawn."""
    if not isinstance(progress, bool):
        yield progress
    elif progress and sys.stderr is not None and is_redrawn(sys.stderr):
        line = ProgressLine(sys.stderr)
        try:
            yield line
        finally:
            line.end()
    else:
        yield None
