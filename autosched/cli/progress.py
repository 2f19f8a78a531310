"""How far a run is: a live display on a terminal, now and then a plain line elsewhere. Always on stderr."""

import time
from collections import Counter as Tally
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.progress_bar import ProgressBar
from rich.table import Table

from autosched import report
from measurements.record import Record
from search_spaces.problem import Problem

PLAIN_SECONDS = 5.0  # between two lines where no terminal can be redrawn


class Pace:
    """Rate and time left of a run of ``total`` steps, from the clock."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.done = 0
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    @property
    def text(self) -> str:
        """``2.1/s, 14 s left``, or nothing before the first step is done."""
        if not self.done:
            return ""
        rate = self.done / max(self.seconds, 1e-9)
        shown = f"{rate:.1f}/s" if rate >= 0.1 else f"{report.duration(1 / rate)} each"
        left = self.total - self.done
        return f"{shown}, {report.duration(left / rate)} left" if left else f"{shown}"


class Counter:
    """Steps of one kind, with a note that changes. Use it as a context."""

    def __init__(self, console: Console, noun: str, total: int) -> None:
        self._console, self._noun = console, noun
        self._pace = Pace(total)
        self._live: Progress | None = None
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}"),
                console=self._console,
                transient=True,
                expand=True,
            )
            self._task = self._live.add_task(self._noun, total=self._pace.total, note="")
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def advance(self, note: str = "") -> None:
        """One more step is done."""
        self._pace.done += 1
        text = ", ".join(part for part in (self._pace.text, note) if part)
        if self._live is not None:
            self._live.update(self._task, completed=self._pace.done, note=text)
        elif time.monotonic() - self._last_line >= PLAIN_SECONDS:
            self._last_line = time.monotonic()
            self._console.print(f"{self._noun} {self._pace.done}/{self._pace.total}, {text}")


class TuneDisplay:
    """Trials done, the best so far, failures by reason, rate and time left. Use it as a context.

    ``earlier`` trials of the same problem, device and provenance were there before this run; a ``best`` among them may
    be shown from the start.
    """

    def __init__(self, console: Console, problem: Problem, total: int, best: Record | None = None) -> None:
        self._console, self._problem, self._pace = console, problem, Pace(total)
        self._best = best
        self._failures: Tally[str] = Tally()
        self._live: Live | None = None
        self._last_line = time.monotonic()

    @property
    def failures(self) -> dict[str, int]:
        """How many trials of this run ended in each failure."""
        return dict(self._failures)

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(console=self._console, get_renderable=self._draw, refresh_per_second=4, transient=True)
            self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        if self._live is not None:
            self._live.stop()

    def trial(self, record: Record, best: Record | None) -> None:
        """One more trial is done, ``best`` is the best one now."""
        self._pace.done += 1
        if not record.ok:
            self._failures[record.status.value] += 1
        better = best is not None and (self._best is None or best.seconds != self._best.seconds)
        self._best = best
        if self._live is None and (better or time.monotonic() - self._last_line >= PLAIN_SECONDS):
            self._last_line = time.monotonic()
            failed = f", failed {self._failed_text}" if self._failures else ""
            self._console.print(f"{self._pace.done}/{self._pace.total}  best {self._best_text}{failed}, {self._pace.text}")

    @property
    def _best_text(self) -> str:
        if self._best is None or self._best.seconds is None:
            return "none yet"
        seconds = self._best.seconds
        rate = report.flop_rate(self._problem, seconds)
        return f"{report.time(seconds)}, {rate}, {self._best.provenance.value}"

    @property
    def _failed_text(self) -> str:
        return f"{self._failures.total()}: {report.reasons(self._failures)}" if self._failures else "none"

    def _draw(self) -> Table:
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="bold", no_wrap=True)
        grid.add_column()
        bar = Table.grid(padding=(0, 2, 0, 0))
        bar.add_row(
            ProgressBar(total=self._pace.total, completed=self._pace.done, width=24),
            f"{self._pace.done}/{self._pace.total}",
            self._pace.text,
        )
        grid.add_row("trials", bar)
        grid.add_row("best", self._best_text)
        grid.add_row("failed", self._failed_text)
        return grid
