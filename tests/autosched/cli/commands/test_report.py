"""Formatting of times, rates, problems and progress."""

import io
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from autosched.cli.terminal.console import show, stdout_console
from autosched.cli.terminal.output import print_json
from autosched.cli.terminal.progress import Counter, TuneDisplay
from autosched.reporting import formatting
from autosched.tuning.result import Progress, Start
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(2.1344e-4, "213.4 us"), (1.5e-3, "1.500 ms"), (2.0, "2.000 s"), (3.25e-8, "32.50 ns"), (1e-6, "1.000 us")],
)
def test_times_have_four_digits(seconds: float, text: str) -> None:
    assert formatting.time(seconds) == text


@settings(deadline=None)
@given(st.floats(1e-9, 1e3))
def test_a_shown_time_is_the_time(seconds: float) -> None:
    value, unit = formatting.time(seconds).split()
    scale = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}[unit]
    assert float(value) * scale == pytest.approx(seconds, rel=1e-3)


@settings(deadline=None)
@given(st.floats(1e-8, 10.0))
def test_a_shown_rate_is_the_rate(seconds: float) -> None:
    problem = Matmul(512, 512, 512)
    value, unit = formatting.rate(problem, seconds).split()
    scale = {"TFLOP/s": 1e12, "GFLOP/s": 1e9, "MFLOP/s": 1e6}[unit]
    assert float(value) * scale == pytest.approx(problem.flops / seconds, rel=1e-3)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.9, "9.9 s"), (9.97, "10.0 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (7500, "2 h 5 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert formatting.duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 bytes"), (1, "1 bytes"), (1023, "1023 bytes"), (4096, "4.0 KiB"), (150 << 30, "150 GiB")],
)
def test_sizes(number: int, text: str) -> None:
    assert formatting.size(number) == text


def test_counts_are_whole_until_too_long_to_read() -> None:
    assert formatting.count(38_990_852_238_772) == "38,990,852,238,772"
    assert formatting.count(66_320_000_000_000_000) == "6.63e+16"
    assert (formatting.plural(1, "schedule"), formatting.plural(2, "schedule")) == ("1 schedule", "2 schedules")


@pytest.mark.parametrize(
    ("part", "total", "text"), [(0, 10, "0.0 %"), (1, 10**6, "< 0.1 %"), (1, 3, "33.3 %"), (10**20, 10**20, "100.0 %")]
)
def test_percentages(part: int, total: int, text: str) -> None:
    assert formatting.percent(part, total) == text


def test_reasons_are_sorted_by_frequency() -> None:
    assert formatting.reasons({"timeout": 1, "wrong_result": 3, "crashed": 1}) == "wrong_result 3, crashed 1, timeout 1"


def test_pace_shows_rate_and_remaining_time() -> None:
    assert formatting.pace(2.5, 14) == "2.5/s, 14 s left"
    assert formatting.pace(0.05, 80) == "20 s each, 1 min 20 s left"
    assert formatting.pace(2.5, 0) == "2.5/s"


def test_a_problems_name_lists_its_non_default_values() -> None:
    assert formatting.one_line(Matmul(1, 2, 3)) == "matmul m=1 n=2 k=3 a=f16 b=f16 acc=f32 out=f16"
    assert formatting.one_line(Matmul(1, 2, 3, order_b="col")).endswith(" order_b=col")
    problems = [Matmul(1, 2, 3), Matmul(4, 2, 3, batch=2)]
    assert formatting.differing_fields(problems) == ["m", "n", "k", "batch"]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_decisions_show_all_parameters_at_any_width(width: int) -> None:
    schedule = Schedule("matmul", tuple((f"parameter_{i}", i * 1000) for i in range(7)))
    out = io.StringIO()
    Console(file=out, width=width).print(formatting.decisions(schedule, width))
    lines = out.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    for name, value in schedule.items:
        assert name in out.getvalue() and str(value) in out.getvalue()


@pytest.mark.parametrize("width", [1, 20, 40, 61, 200])
def test_a_table_shows_whole_cells_at_any_width(width: int) -> None:
    table = formatting.table("name", "count", "note", right=("count",), fold=("note",))
    rows = [(f"a name {i}", "38,990,852,238,772", "9.799 TFLOP/s of these and more") for i in range(3)]
    for row in rows:
        table.add_row(*row)
    out = io.StringIO()
    console = Console(file=out, width=width)
    show(console, table)
    show(console, formatting.facts([("time", "213.4567890 us, 644.1 TFLOP/s")]))
    text = out.getvalue()
    assert "…" not in text
    for row in rows:
        assert all(word in text for cell in row[:2] for word in (cell,))
    assert all(word in text for word in ("TFLOP/s", "213.4567890", "644.1", "note"))
    assert max(map(len, text.splitlines())) <= max(width, 50)


def test_json_writes_nan_and_infinity_as_strings(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": [float("nan"), 1.5], "b": {"c": float("-inf")}, "d": (1, "x", None, True)})
    text = capsys.readouterr().out
    assert text == '{\n  "a": [\n    "nan",\n    1.5\n  ],\n  "b": {\n    "c": "-inf"\n  },\n' + (
        '  "d": [\n    1,\n    "x",\n    null,\n    true\n  ]\n}\n'
    )


def test_names_in_brackets_are_not_parsed_as_markup(capsys: pytest.CaptureFixture[str]) -> None:
    stdout_console().print("[red]pad[/red] :smile: 12")
    assert capsys.readouterr().out == "[red]pad[/red] :smile: 12\n"


def display(terminal: bool, limit: str = "") -> tuple[TuneDisplay, io.StringIO, io.StringIO]:
    answers, messages = io.StringIO(), io.StringIO()
    return (
        TuneDisplay(
            Console(file=answers, width=80),
            Console(file=messages, width=80, force_terminal=terminal, color_system=None, highlight=False),
            limit,
        ),
        answers,
        messages,
    )


RECORD = Trial(
    Matmul(8, 8, 8).key(),
    Schedule("matmul", (("tile_m", 16),)),
    "h200",
    "{}",
    "v1",
    "1",
    "d",
    Measurement(Status.OK, Provenance.ESTIMATED, timing=Timing.estimate(2e-6)),
    "nvrtc 13.0",
    "",
    "0.1.0",
    datetime(2026, 1, 2, tzinfo=UTC),
    "random",
    0,
    id=1,
)
START = Start(Matmul(8, 8, 8), device("h200"), Provenance.ESTIMATED, ("ESTIMATED because " + "x" * 90,), 9, 0, None)


def test_a_terminal_shows_the_state_and_is_cleared_afterwards() -> None:
    progress, answers, messages = display(True)
    with progress:
        assert not progress.has_started
        progress.started(START)
        assert progress.has_started
        assert "none yet" in messages.getvalue() and "0/9" in messages.getvalue()
    assert answers.getvalue().splitlines()[0] == "ESTIMATED because " + "x" * 90
    assert messages.getvalue().endswith("\x1b[2K")  # the last write erases the display


def test_a_pipe_gets_no_control_characters(tmp_path: Path) -> None:
    progress, _, messages = display(False)
    with progress:
        progress.started(START)
    with Counter(Console(file=messages, width=80), "emulated", 2) as steps:
        steps.advance()
        steps.advance("1 failed")
    assert "\x1b" not in messages.getvalue()


def test_a_long_step_is_reported_with_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.cli.terminal.progress.QUIET_SECONDS", 0.05)
    monkeypatch.setattr("autosched.cli.terminal.progress.LIMIT_SECONDS", 0.2)
    progress, _, messages = display(False, "a launch may take 60 s")
    with progress:
        progress.started(START)
        until(lambda: messages.getvalue().startswith("0/9") and ", a launch may take 60 s\n" in messages.getvalue())
    first, *_ = messages.getvalue().splitlines()
    assert "may take" not in first  # the limit is printed only after LIMIT_SECONDS
    console = Console(file=messages, width=80)
    with Counter(console, "emulated", 2, "a launch may take 60 s"):
        until(lambda: "emulated 0/2 in 0 s, a launch may take 60 s\n" in messages.getvalue())
    length = len(messages.getvalue())
    time.sleep(0.2)
    assert len(messages.getvalue()) == length  # a finished display prints nothing more


def until(seen: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30.0
    while not seen():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    progress, _, messages = display(True)
    with progress:
        progress.started(START)
        progress.trial(step(1, 0.5))
    assert "\x1b" not in messages.getvalue() and "1/40" in messages.getvalue()


def step(done: int, seconds: float) -> Progress:
    return Progress(RECORD, RECORD, done, 40, {}, seconds)


def test_remaining_time_is_shown_after_enough_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autosched.cli.terminal.progress.PLAIN_SECONDS", 0.0)
    progress, _, messages = display(False)
    with progress:
        progress.started(START)
        for done in range(1, 21):
            progress.trial(step(done, 100.0 + done / 4))  # the rate excludes the time before the first trial
    lines = messages.getvalue().splitlines()
    assert "left" not in lines[15] and "/s" not in lines[15].removesuffix("B/s, estimated, trial 1")
    assert lines[16].endswith("4.0/s, 5.8 s left")


def test_progress_has_all_fields_of_the_display() -> None:
    assert {"trial", "best", "done", "trials", "failures", "seconds"} <= set(Progress.__dataclass_fields__)
