"""Times, rates, schedules and tables as people read them."""

from collections.abc import Iterable, Mapping, Sequence

from rich import box
from rich.table import Table

from measurements.measurement import Provenance
from search_spaces.problem import Problem
from search_spaces.schedule import Schedule

_TIME_UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_RATE_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"))

PROVENANCE_NOTE = {
    Provenance.MEASURED: "measured on a GPU",
    Provenance.REPLAYED: "recorded on a GPU earlier",
    Provenance.ESTIMATED: "estimated by a model, no GPU",
}


def time(seconds: float) -> str:
    """A kernel's time with four digits: ``213.4 us``."""
    for scale, unit in _TIME_UNITS:
        if seconds >= scale:
            return f"{_four_digits(seconds / scale)} {unit}"
    return f"{seconds:.2e} s"


def flop_rate(problem: Problem, seconds: float) -> str:
    """What a time means in arithmetic: ``644.1 TFLOP/s``."""
    return f"{_scaled(problem.flops / seconds)}FLOP/s"


def _scaled(value: float) -> str:
    scale, prefix = next(((s, p) for s, p in _RATE_UNITS if value >= s), _RATE_UNITS[-1])
    return f"{_four_digits(value / scale)} {prefix}"


def _four_digits(value: float) -> str:
    digits = 3 if value < 10 else 2 if value < 100 else 1
    return f"{value:.{digits}f}"


def duration(seconds: float) -> str:
    """How long something takes, for people: ``0.4 s``, ``14 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def count(number: int) -> str:
    """A whole number with separators, or in powers of ten where it is too long to read."""
    return f"{number:,}" if number < 10**15 else f"{number:.3e}"


def size(number_of_bytes: int) -> str:
    """Bytes in binary units: ``48 KiB``."""
    value = float(number_of_bytes)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if unit == "bytes" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError  # the loop returns at GiB


def one_line(problem: Problem) -> str:
    """The problem's fields in one line: ``matmul m=4096 n=4096 k=4096 a=f16 ...``."""
    fields = {k: v for k, v in problem.to_json().items() if k != "family"}
    return f"{problem.family} " + " ".join(f"{k}={v}" for k, v in fields.items())


def reasons(counts: Mapping[str, int]) -> str:
    """``wrong_result 2, timeout 1``, most frequent first."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {number}" for name, number in ordered)


def table(*columns: str, right: Sequence[str] = (), fold: Sequence[str] = ()) -> Table:
    """An open table: a line under the head and nothing else. ``right`` aligns numbers, ``fold`` may take several lines."""
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in columns:
        made.add_column(
            name,
            justify="right" if name in right else "left",
            no_wrap=name not in fold,
            overflow="fold" if name in fold else "ellipsis",
        )
    return made


def facts(pairs: Iterable[tuple[str, str]]) -> Table:
    """Names on the left, what is known about them on the right."""
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(no_wrap=True, style="bold")
    made.add_column(overflow="fold")
    for name, value in pairs:
        made.add_row(name, value)
    return made


def decisions(schedule: Schedule, columns: int = 2) -> Table:
    """A schedule's parameters and values, read down the columns."""
    pairs = [(name, str(value)) for name, value in schedule.items]
    height = -(-len(pairs) // columns)
    made = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(columns):
        made.add_column(no_wrap=True, style="dim")
        made.add_column(overflow="fold")
    for row in range(height):
        cells = (pairs[i] if i < len(pairs) else ("", "") for i in range(row, height * columns, height))
        made.add_row(*(text for pair in cells for text in pair))
    return made
