"""Progress of ``tune``: one updated line on a terminal and in a notebook, separate lines elsewhere."""

from __future__ import annotations

import io
import sys
import threading

import pytest

import autosched
from autosched.tuning.progress_line import PlainLines, is_redrawn, shown

COPY = autosched.Copy(rows=64, columns=64)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_line_that_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    result = autosched.tune(COPY, trials=3, device="h200", verify=False)
    stderr = sys.stderr.getvalue()
    assert stderr.startswith("\rtuning copy on h200: 0/3") and stderr.endswith("\n") and stderr.count("\n") == 1
    last = stderr.rstrip().rpartition("\r")[2]
    assert last.startswith("3/3, best ") and "us, estimated" in last
    assert f"{result.best.seconds * 1e6:.4g} us" in last


@pytest.mark.parametrize("progress", [False, None])
def test_a_disabled_progress_has_no_observer(progress: bool | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    with shown(progress) as observer:
        assert observer is None


def test_a_pipe_gets_a_line_now_and_then_also_while_no_trial_ends() -> None:
    printed = threading.Event()

    class Pipe(io.StringIO):
        def flush(self) -> None:
            printed.set()

    pipe = Pipe()
    with PlainLines(pipe, seconds=0.01) as lines:
        autosched.tune(COPY, trials=2, device="h200", verify=False, progress=lines)
        printed.clear()
        assert printed.wait(60)
    last = pipe.getvalue().splitlines()[-1]
    assert last.startswith("tuning copy on h200: 2/2, best ") and "\r" not in pipe.getvalue()


def test_a_closed_pipe_does_not_end_the_search() -> None:
    pipe = io.StringIO()
    pipe.close()
    with PlainLines(pipe, seconds=0.001) as lines:
        lines.join(60)
        assert not lines.is_alive()


def test_a_pipe_gets_plain_lines_and_an_own_observer_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with shown(True) as observer:
        assert isinstance(observer, PlainLines)
    own_observer = object()
    with shown(own_observer) as observer:  # type: ignore[arg-type]
        assert observer is own_observer


def test_a_notebook_redraws() -> None:
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})()
    assert is_redrawn(stream) and not is_redrawn(io.StringIO())


def test_a_results_repr_is_one_line() -> None:
    result = autosched.tune(COPY, trials=2, device="h200", verify=False)
    assert repr(result).startswith("<TuneResult of {") and "\n" not in repr(result)
    assert f"{result.best.seconds * 1e6:.4g} us (estimated) by " in str(result.best)
    assert str(result.best) in repr(result)
