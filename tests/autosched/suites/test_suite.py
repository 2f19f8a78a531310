"""``tune --suite`` distributes one budget over the problems of a file."""

import dataclasses
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from observed import make_trials, observations

from autosched.cli import main
from autosched.suites import suite
from autosched.suites.suite import CHUNK, Standing, SuiteError, SuiteMember, read_suite, tune_suite
from autosched.tuning import tune as tuner
from autosched.tuning.result import Progress, Start, TuneResult
from measurements.store.store import Store
from measurements.trials.measurement import Provenance
from search_spaces.hardware.devices import device
from search_spaces.operators.copy import Copy
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Softmax

SUITE = """
[[problem]]
operator = "copy"
rows = 512
columns = 700
weight = 3

[[problem]]
operator = "softmax"
rows = 256
columns = 1000
dtype = "f32"
"""


def test_a_file_names_problems_and_weights(tmp_path: Path) -> None:
    path = tmp_path / "suite.toml"
    path.write_text(SUITE)
    assert read_suite(path) == (SuiteMember(Copy(512, 700), 3.0), SuiteMember(Softmax(256, 1000, dtype="f32"), 1.0))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "must contain only a table"),
        ("problem = 3", "must contain only a table"),
        ("[[problem", "is not TOML"),
        (SUITE + "[other]", "only a table"),
        ("[[problem]]\nrows = 3", "problem 1 of .* needs an operator"),
        ('[[problem]]\noperator = "fft"', "problem 1 of .* cannot be used: unknown operator"),
        ('[[problem]]\noperator = "matmul"\nm = 8', "problem 1 of .* it needs n, k"),
        ('[[problem]]\noperator = "copy"\nrows = 8\ncolumns = 8\nrow = 8', "problem 1 of .* it has no row"),
        ('[[problem]]\noperator = "copy"\nrows = 3', "cannot be used"),
        ('[[problem]]\noperator = "copy"\nrows = 3\ncolumns = 4\nheight = 5', "cannot be used.*height"),
        ('[[problem]]\noperator = "copy"\nrows = 3\ncolumns = 4\nweight = 0', "weight 0: use a positive number"),
        ('[[problem]]\noperator = "copy"\nrows = 3\ncolumns = 4\nweight = inf', "weight inf"),
        ('[[problem]]\noperator = "copy"\nrows = 3\ncolumns = 4\nweight = 1' + "0" * 400, "use a positive number"),
        (SUITE + SUITE, "duplicate problem 3 in"),
    ],
)
def test_invalid_suites_are_rejected(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "suite.toml"
    path.write_text(text)
    with pytest.raises(SuiteError, match=complaint) as error:
        read_suite(path)
    assert "\n" not in str(error.value)


class Tunes:
    """Fake of ``tuner.tune``.

    ``bests`` lists a problem's best time after each chunk. After the last of these times, the best time stays the same.
    """

    def __init__(self, bests: Mapping[Problem, list[float]]) -> None:
        self.bests = bests
        self.chunks: list[tuple[Problem, int]] = []
        self.options: list[dict[str, Any]] = []

    def __call__(self, problem: Problem, *, trials: int, progress: Any = None, **options: Any) -> TuneResult:
        self.options.append(options)
        self.chunks.append((problem, trials))
        num_tuned = sum(1 for tuned, _ in self.chunks if tuned == problem)
        times = self.bests[problem]
        seconds = times[min(num_tuned, len(times)) - 1]
        observed = observations(problem, rows=1)
        (trial,) = make_trials(observed)
        best = None if math.isinf(seconds) else make_trials(_timed(observed, seconds))[0]
        h200 = device("h200")
        return TuneResult(problem, h200, Provenance.MEASURED, best, (trial,) * trials, 0, (), 1.0)


def _timed(one: Any, seconds: float) -> Any:
    return dataclasses.replace(one, seconds=(seconds,))


@pytest.fixture
def tunes(monkeypatch: pytest.MonkeyPatch) -> Callable[[Mapping[Problem, list[float]]], Tunes]:
    def make(bests: Mapping[Problem, list[float]]) -> Tunes:
        fake_tunes = Tunes(bests)
        monkeypatch.setattr(tuner, "tune", fake_tunes)
        return fake_tunes

    return make


FAST, SLOW, HOPELESS = Copy(512, 700), Copy(4096, 4096), Copy(64, 64)


def test_trials_are_allocated_by_saved_time(tunes: Callable[[Mapping[Problem, list[float]]], Tunes]) -> None:
    """The slow problem improves by a fifth per chunk and gets most chunks. The other problems get one chunk each."""
    fake = tunes({FAST: [1e-6], SLOW: [1e-3 * 0.8**i for i in range(20)], HOPELESS: [math.inf]})
    result = tune_suite(
        [SuiteMember(FAST), SuiteMember(SLOW), SuiteMember(HOPELESS)], trials=20 * CHUNK, database="b.db"
    )
    spent = {s.member.problem: s.trials for s in result.standings}
    assert result.trials == sum(spent.values()) == 20 * CHUNK
    assert [problem for problem, _ in fake.chunks[:3]] == [FAST, SLOW, HOPELESS]
    assert (spent[FAST], spent[HOPELESS]) == (CHUNK, CHUNK)
    assert spent[SLOW] == 18 * CHUNK
    assert not result.ok
    assert all(options == {"database": "b.db", "seconds": None} for options in fake.options)


def test_weights_count(tunes: Callable[[Mapping[Problem, list[float]]], Tunes]) -> None:
    """A problem with four times the weight of a similar problem gets four times as many trials.

    Each problem's expected gain falls with the number of its chunks.
    """
    tunes({FAST: [1e-3], SLOW: [1e-3]})
    result = tune_suite([SuiteMember(FAST, 4.0), SuiteMember(SLOW, 1.0)], trials=20 * CHUNK, database="b.db")
    often, seldom = (s.trials // CHUNK for s in result.standings)
    assert (often, seldom) == (16, 4)


def test_every_problem_is_searched_with_a_small_budget(tunes: Callable[[Mapping[Problem, list[float]]], Tunes]) -> None:
    fake = tunes({FAST: [1e-6], SLOW: [1e-3]})
    result = tune_suite([SuiteMember(FAST), SuiteMember(SLOW)], trials=5, database="b.db")
    assert [n for _, n in fake.chunks] == [1] * 5
    assert all(s.trials for s in result.standings)
    with pytest.raises(SuiteError, match="1 trials are too few for 2 problems"):
        tune_suite([SuiteMember(FAST), SuiteMember(SLOW)], trials=1, database="b.db")


def test_a_stopped_or_exhausted_search_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = Tunes({FAST: [1e-6], SLOW: [1e-3]})
    monkeypatch.setattr(tuner, "tune", lambda p, **o: dataclasses.replace(inner(p, **o), exhausted=True))
    result = tune_suite([SuiteMember(FAST), SuiteMember(SLOW)], trials=100, database="b.db")
    assert [s.trials for s in result.standings] == [CHUNK, CHUNK]
    assert result.trials == 2 * CHUNK
    monkeypatch.setattr(tuner, "tune", lambda p, **o: dataclasses.replace(inner(p, **o), interrupted=True))
    assert tune_suite([SuiteMember(FAST), SuiteMember(SLOW)], trials=100, database="b.db").interrupted


def test_time_is_shared_by_gain_per_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two problems with equal gains, the one whose trials take a tenth of the time gets most trials."""
    clock, inner = [0.0], Tunes({FAST: [1e-3], SLOW: [1e-3]})

    def tune(problem: Problem, **options: Any) -> TuneResult:
        took = 1.0 if problem == FAST else 10.0
        clock[0] += took
        return dataclasses.replace(inner(problem, **options), seconds=took)

    monkeypatch.setattr(tuner, "tune", tune)
    monkeypatch.setattr(suite, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    result = tune_suite([SuiteMember(FAST), SuiteMember(SLOW)], trials=1000 * CHUNK, seconds=50.0, database="b.db")
    assert result.out_of_time and result.seconds == pytest.approx(50.0, abs=10.0)
    fast, slow = (s.trials // CHUNK for s in result.standings)
    assert fast > 5 * slow > 0
    left = [options["seconds"] for options in inner.options]
    assert left == sorted(left, reverse=True) and min(left) > 0


def test_gains_fall_as_a_search_slows_down() -> None:
    standing = Standing(SuiteMember(FAST, 2.0))
    assert standing.expected_gain == math.inf
    standing.bests, standing.trials = [math.inf, 1.0], 16
    assert standing.expected_gain == pytest.approx(2.0 * 0.02)
    standing.bests.append(0.5)
    assert standing.expected_gain == pytest.approx(2.0 * 0.5 * 0.25)
    standing.bests.append(0.5)
    assert standing.expected_gain == pytest.approx(2.0 * 0.5 * 0.02 / 3)


def test_the_command_shows_a_table(
    tunes: Callable[[Mapping[Problem, list[float]]], Tunes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suite.toml").write_text(SUITE)
    fake = tunes({Copy(512, 700): [2e-6, 1e-6], Softmax(256, 1000, dtype="f32"): [3e-6]})
    command = ["tune", "--suite", "suite.toml", "--db", "b.db", "--trials", "64", "--device", "h200", "--seed", "3"]
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert fake.options[0]["seed"] == 3
    copy = next(line for line in out.splitlines() if line.startswith("copy"))
    assert copy.split()[-7:] == ["2.000", "us", "1.000", "us", "50.0", "%", "measured"]
    assert "6.000 us (measured) of all problems, weighted" in out
    assert "copy rows=512 columns=700" in err
    assert main([*command, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [p["weight"] for p in document["problems"]] == [3.0, 1.0]
    assert document["trials"] == 64
    for wrong, complaint in (
        (["tune", "--suite", "none.toml", "--db", "b.db"], "none.toml cannot be read"),
        (["tune", "--suite", "suite.toml"], "needs --db"),
        (["tune", "--suite", "suite.toml", "--db", "b.db", "--trials", "1"], "too few for 2 problems"),
        (["tune", "--suite", "suite.toml", "--dbb", "b.db"], "see 'autosched tune --suite FILE --help'"),
    ):
        assert main(wrong) == 2
        err = capsys.readouterr().err
        assert complaint in err
        assert err.count("\n") == 1


def test_an_unreached_problem_keeps_the_best_of_the_database(
    tunes: Callable[[Mapping[Problem, list[float]]], Tunes],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "suite.toml").write_text(SUITE)
    softmax = Softmax(256, 1000, dtype="f32")
    inner = tunes({Copy(512, 700): [2e-6]})

    def tune(problem: Problem, **options: Any) -> TuneResult:
        if problem == softmax:
            raise KeyboardInterrupt
        return inner(problem, **options)

    monkeypatch.setattr(tuner, "tune", tune)
    command = ["tune", "--suite", "suite.toml", "--db", "b.db", "--trials", "64", "--device", "h200"]
    assert main(command) == 130
    out = capsys.readouterr().out
    assert "not reached" in out and "none works" not in out
    (stored,) = make_trials(observations(softmax, rows=1))
    with Store.open(tmp_path / "b.db") as store:
        store.append(stored)
    assert main([*command, "--json"]) == 130
    best = json.loads(capsys.readouterr().out)["problems"][1]["best"]
    assert best["schedule"] == stored.schedule.to_json()

    def stopped(problem: Problem, **options: Any) -> TuneResult:
        raise KeyboardInterrupt

    monkeypatch.setattr(tuner, "tune", stopped)
    assert main([*command[:4], "new.db", *command[5:]]) == 130
    assert "autosched: stopped; nothing was tried" in capsys.readouterr().err


@pytest.mark.parametrize("done", [None, 0, 3])
def test_an_interrupt_outside_the_tuner_reports_finished_trials(
    tunes: Callable[[Mapping[Problem, list[float]]], Tunes], monkeypatch: pytest.MonkeyPatch, done: int | None
) -> None:
    """Interrupt before the second problem starts, before its first trial, and after three of its trials."""
    inner = tunes({FAST: [1e-3], SLOW: [1e-3]})
    (trial,) = make_trials(observations(SLOW, rows=1))

    def tune(problem: Problem, *, progress: Any, **options: Any) -> TuneResult:
        if problem == FAST:
            return inner(problem, **options)
        if done is not None:
            progress.started(Start(problem, device("h200"), Provenance.MEASURED, (), 16, 0, None))
            for number in range(1, done + 1):
                progress.trial(Progress(trial, trial, number, 16, {}, 1.0))
        raise KeyboardInterrupt

    monkeypatch.setattr(tuner, "tune", tune)
    result = tune_suite([SuiteMember(FAST), SuiteMember(SLOW)], trials=64, database="b.db")
    assert result.interrupted and result.ok == bool(done)
    assert [s.trials for s in result.standings] == [CHUNK, done or 0]
    assert result.trials == CHUNK + (done or 0)


def test_a_budget_is_spent_first_on_the_largest_headroom() -> None:
    little = Standing(SuiteMember(Copy(8, 8), 1.0, 1.0, 0.0))
    much = Standing(SuiteMember(Copy(8, 9), 1.0, 1.0, 0.5))
    unknown = Standing(SuiteMember(Copy(8, 10)))
    ordered = sorted((little, much, unknown), key=lambda s: -s.expected_gain)
    assert ordered == [unknown, much, little]
    assert much.gain_per_second(10.0) == pytest.approx(0.05)
    assert little.expected_gain > 0.0  # a gain of 0 would exclude the problem from tuning
