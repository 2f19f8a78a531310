"""Display of a search's progress: a line that is redrawn on a terminal or in a notebook, otherwise plain lines."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self, TextIO

from autosched.tuning.result import Observer, Progress, Start
from measurements.files.text import harmless

REDRAWN_SECONDS = 0.2  # minimum seconds between redraws; slow remote terminals can display this rate
PLAIN_SECONDS = 10.0  # seconds between plain lines


class ProgressLine:
    """Observer that draws one line on ``stream``: numbers of trials and failures, best time, and remaining time."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._width = 0  # number of characters of the last drawn text, which the next text must cover
        self._drawn = 0.0  # time of the last draw

    def started(self, start: Start) -> None:
        """Draw the progress line with 0 completed trials."""
        self._draw(f"{_title(start)}: 0/{start.trials}")

    def trial(self, progress: Progress) -> None:
        """Redraw the progress line, at most once per ``REDRAWN_SECONDS``. The last trial is always drawn."""
        if progress.done < progress.trials and time.monotonic() - self._drawn < REDRAWN_SECONDS:
            return
        parts = [_summary(progress)]
        parts += [f"{progress.seconds_left:.0f} s left"] if progress.done < progress.trials else []
        self._draw(", ".join(parts))

    def end(self) -> None:
        """Move the cursor below the progress line, so that later output does not overwrite the line."""
        if self._width:
            self._stream.write("\n")
            self._stream.flush()
            self._width = 0

    def _draw(self, text: str) -> None:
        line = harmless(text)
        self._stream.write("\r" + line.ljust(self._width))
        self._stream.flush()
        self._width, self._drawn = len(line), time.monotonic()


class PlainLines(threading.Thread):
    """Context manager and observer: prints a line every ``seconds`` seconds, even if no trial has ended."""

    def __init__(self, stream: TextIO, seconds: float = PLAIN_SECONDS) -> None:
        super().__init__(daemon=True)
        self._stream, self._seconds = stream, seconds
        self._began = time.monotonic()
        self._task, self._state = "tuning", "starting"
        self._over = threading.Event()

    def started(self, start: Start) -> None:
        """Record the problem and the planned number of trials."""
        self._task, self._state = _title(start), f"0/{start.trials}"

    def trial(self, progress: Progress) -> None:
        """Record the progress of the search."""
        self._state = _summary(progress)

    def run(self) -> None:
        """Print the state at regular intervals until the search ends."""
        while not self._over.wait(self._seconds):
            line = f"{self._task}: {self._state}, {time.monotonic() - self._began:.0f} s"
            try:
                print(harmless(line), file=self._stream, flush=True)
            except (OSError, ValueError):  # the reader has closed the stream
                return

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._over.set()
        self.join()


def _title(start: Start) -> str:
    return f"tuning {start.problem.operator} on {start.device.name}"


def _summary(progress: Progress) -> str:
    parts = [f"{progress.done}/{progress.trials}"]
    if progress.best is not None and progress.best.seconds is not None:
        parts.append(f"best {progress.best.seconds * 1e6:.4g} us, {progress.best.provenance.value}")
    failed = sum(progress.failures.values())
    parts += [f"failed {failed}"] if failed else []
    return ", ".join(parts)


def is_redrawn(stream: TextIO) -> bool:
    """Return True if ``stream`` is a terminal or a notebook, on which a line can be redrawn."""
    return stream.isatty() or type(stream).__module__.startswith("ipykernel.")


@contextmanager
def shown(progress: Observer | bool | None) -> Iterator[Observer | None]:
    """Yield the observer of a search: ``progress``, or for ``progress=True`` an observer that writes to stderr."""
    if not isinstance(progress, bool):
        yield progress
    elif not progress or sys.stderr is None:
        yield None
    elif is_redrawn(sys.stderr):
        line = ProgressLine(sys.stderr)
        try:
            yield line
        finally:
            line.end()
    else:
        with PlainLines(sys.stderr) as lines:
            yield lines
