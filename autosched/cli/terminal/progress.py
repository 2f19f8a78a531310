"""Progress on stderr: a live display on a terminal, otherwise occasional plain lines."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.table import Table

from autosched.cli.terminal import interrupts
from autosched.reporting import formatting

if TYPE_CHECKING:
    from rich.live import Live
    from rich.progress import Progress

    from autosched.tuning.result import Progress as Tuning
    from autosched.tuning.result import Start

PLAIN_SECONDS = 5.0  # seconds between two progress lines if stderr is not a terminal
QUIET_SECONDS = 4.0  # seconds without a printed line after which a line reports the delay
LIMIT_SECONDS = 15.0  # seconds of waiting after which this line also shows the time limit of a step
LEAST_TRIALS = 16  # minimum number of finished trials before a rate is shown


def _redrawn(console: Console) -> bool:
    return console.is_terminal and not console.is_dumb_terminal


class _Ticker(threading.Thread):
    """Context manager that calls ``tick`` every QUIET_SECONDS / 4, which limits how late a delay is reported."""

    def __init__(self, tick: Callable[[], None]) -> None:
        super().__init__(daemon=True)
        self._tick, self._over = tick, threading.Event()

    def run(self) -> None:
        while not self._over.wait(QUIET_SECONDS / 4):
            self._tick()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._over.set()


class Counter:
    """Progress display that counts steps and shows a changing note; a context manager.

    ``limit`` is the time limit of a step.
    """

    def __init__(self, console: Console, noun: str, total: int, limit: str = "") -> None:
        self._console, self._noun, self._limit = console, noun, limit
        self._total, self._done, self._started = total, 0, time.monotonic()
        self._live: Progress | None = None
        self._last_line = time.monotonic()
        self._running = ExitStack()

    def __enter__(self) -> Self:
        if _redrawn(self._console):
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            self._live = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TextColumn("{task.fields[note]}"),
                console=self._console,
                transient=True,
                expand=True,
            )
            self._task = self._live.add_task(self._noun, total=self._total, note=self._limit)
            self._running.callback(self._live.stop)
            self._live.start()
        else:
            self._running.enter_context(_Ticker(self._report_delay))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._running.close()

    def _report_delay(self) -> None:
        if time.monotonic() - self._last_line >= QUIET_SECONDS:
            self._last_line = time.monotonic()
            elapsed = self._last_line - self._started
            limit = self._limit if elapsed >= LIMIT_SECONDS else ""
            text = ", ".join(
                part for part in (f"{self._noun} {self._done}/{self._total} in {elapsed:.0f} s", limit) if part
            )
            self._console.print(text, soft_wrap=True)

    def advance(self, note: str = "") -> None:
        """Count one more step."""
        self._done += 1
        rate = self._done / max(time.monotonic() - self._started, 1e-9)
        pace = formatting.pace(rate, (self._total - self._done) / rate)
        text = ", ".join(part for part in (pace, note) if part)
        if self._live is not None:
            self._live.update(self._task, completed=self._done, note=text)
        elif time.monotonic() - self._last_line >= PLAIN_SECONDS:
            self._last_line = time.monotonic()
            self._console.print(f"{self._noun} {self._done}/{self._total}, {text}", soft_wrap=True)


class TuneDisplay:
    """Progress display of a search: trials done, best so far, failures by reason, rate and remaining time.

    The introductory lines are printed on ``answers``; progress is shown on ``messages``. ``limit`` is the time limit of
    a trial, as text. Use the display as a context manager.
    """

    def __init__(self, answers: Console, messages: Console, limit: str = "") -> None:
        self._answers, self._console, self._limit = answers, messages, limit
        self._start: Start | None = None
        self._now: Tuning | None = None
        # the rate is computed from the first result on, which excludes the start of workers and the first compilation
        self._first: Tuning | None = None
        self._live: Live | None = None
        self._running = ExitStack()
        self._last_line = self._last_trial = time.monotonic()

    @property
    def has_started(self) -> bool:
        """True once the search has started, which means that the input was valid."""
        return self._start is not None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._running.close()

    def started(self, start: Start) -> None:
        """Record that the search has started: the backend is chosen and the database is open."""
        self._start = start
        self._running.enter_context(interrupts.raised())
        for line in (*start.lines, f"{formatting.one_line(start.problem)} on {start.device.name}"):
            self._answers.print(line, soft_wrap=not self._answers.is_terminal)
        if _redrawn(self._console):
            from rich.live import Live  # imported lazily, because only live displays need rich

            self._live = Live(console=self._console, get_renderable=self._draw, refresh_per_second=4, transient=True)
            self._running.callback(self._live.stop)
            self._live.start(refresh=True)
        else:
            self._running.enter_context(_Ticker(self._report_delay))

    def _report_delay(self) -> None:
        if time.monotonic() - self._last_line >= QUIET_SECONDS:
            quiet, self._last_line = time.monotonic() - self._last_trial, time.monotonic()
            done = 0 if self._now is None else self._now.done
            total = self._start.trials if self._start is not None else done
            doing = "no trial finished" if done < total else "verifying or timing the best schedules"
            status = f"{doing} for {quiet:.0f} s"
            limit = self._limit if quiet >= LIMIT_SECONDS else ""
            text = ", ".join(part for part in (f"{done}/{total}", status, limit) if part)
            self._console.print(text, soft_wrap=True)

    def trial(self, progress: Tuning) -> None:
        """Count one more trial."""
        before = self._now.best if self._now is not None else self._start.best if self._start is not None else None
        better = progress.best is not None and (before is None or progress.best.id != before.id)
        self._now, self._last_trial = progress, time.monotonic()
        self._first = self._first or progress
        if self._live is None and (better or time.monotonic() - self._last_line >= PLAIN_SECONDS):
            self._last_line = time.monotonic()
            failed = f"failed {self._failed}" if progress.failures else ""
            parts = (f"{progress.done}/{progress.trials}", f"best {self._best}", failed, self._pace)
            self._console.print(", ".join(part for part in parts if part), soft_wrap=True)

    @property
    def _best(self) -> str:
        trial = self._now.best if self._now is not None else self._start.best if self._start is not None else None
        if trial is None or trial.seconds is None or self._start is None:
            return "none yet"
        rate = formatting.rate(self._start.problem, trial.seconds, trial.device)
        return f"{formatting.time(trial.seconds)}, {rate}, {trial.provenance.value}, trial {trial.id}"

    @property
    def _failed(self) -> str:
        counts = self._now.failures if self._now is not None else {}
        return f"{sum(counts.values())}: {formatting.reasons(counts)}" if counts else "none"

    @property
    def _pace(self) -> str:
        """Return the trial rate and the remaining time as text; "" after too few trials.

        The rate is that of all trials after the first one.
        """
        if self._now is None or self._first is None or self._now.done - self._first.done < LEAST_TRIALS:
            return ""
        rate = (self._now.done - self._first.done) / max(self._now.seconds - self._first.seconds, 1e-9)
        return formatting.pace(rate, (self._now.trials - self._now.done) / rate)

    def _draw(self) -> Table:
        done, total = (self._now.done, self._now.trials) if self._now else (0, self._start.trials if self._start else 1)
        from rich.progress_bar import ProgressBar

        bar = Table.grid(padding=(0, 2, 0, 0))
        bar.add_row(ProgressBar(total=total, completed=done, width=24), f"{done}/{total}", self._pace)
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(style="bold", no_wrap=True)
        grid.add_column()
        for name, value in (("trials", bar), ("best", self._best), ("failed", self._failed)):
            grid.add_row(name, value)
        return grid
