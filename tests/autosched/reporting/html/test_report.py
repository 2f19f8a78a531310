"""The HTML report agrees with the database, and is self-contained."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from store_trials import make_trial

from autosched.cli.app import run
from autosched.reporting.html import build, html_report, render, svg
from autosched.reporting.html.decisions import decisions
from autosched.reporting.html.entry import age
from autosched.reporting.pictures import panels
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from measurements.trials.trial import Trial
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.layouts.wg_map import WgMap
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Softmax
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.drawing import Drawing

PROBLEM, H200 = Transpose(64, 64), device("h200")
HOSTILE = "</td><script>alert(1)</script><img src=http://example.org/x>"


def timed(seconds: float, provenance: Provenance = Provenance.MEASURED) -> Measurement:
    return Measurement(Status.OK, provenance, timing=Timing(seconds, seconds, seconds, 9), error=0.1)


def schedules(count: int, name: str = "transpose", problem: Problem = PROBLEM) -> list[Schedule]:
    return template(name).space(problem, H200).sample(count, 0)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "best.db"
    with Store.open(path) as store:
        for i, schedule in enumerate(schedules(6)):
            store.append(make_trial(schedule, timed((3 + i) * 1e-6), PROBLEM))
        failure = Measurement(Status.COMPILE_ERROR, Provenance.MEASURED, reason=HOSTILE)
        store.append(make_trial(schedules(7)[-1], failure, PROBLEM))
        softmax = Softmax(16, 64)
        (one,) = schedules(1, "row_reduction", softmax)
        store.append(make_trial(one, timed(5e-6, Provenance.ESTIMATED), softmax))
    return path


class Page(HTMLParser):
    """Parser that collects a page's tags, references, ids and cell texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.references: list[str] = []
        self.ids: set[str] = set()
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "srcset", "action"):
                self.references.append(value or "")
            if name == "id":
                self.ids.add(value or "")

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_self_contained(database: Path) -> None:
    text = render(build(Store.open(database)))
    page = Page(text)
    assert not page.tags & {"script", "iframe", "img", "object", "embed", "form"}
    assert all(r == "data:," or (r.startswith("#") and r[1:] in page.ids) for r in page.references)
    assert "url(" not in text and "@import" not in text
    assert HOSTILE in page.text, "hostile text is shown as text, not interpreted"


def test_the_first_screen_has_a_line_for_each_problem(database: Path) -> None:
    report = build(Store.open(database), now=datetime(2026, 3, 7, 6, tzinfo=UTC))
    transpose, softmax = report.entries
    assert (transpose.winner, transpose.seconds, transpose.age) == ("transpose", 3e-6, "3 days")
    assert transpose.share == pytest.approx(PROBLEM.min_bytes / H200.dram_bandwidth / 3e-6)
    assert transpose.failures[0].status == "compile_error" and transpose.failures[0].share == pytest.approx(1 / 7)
    assert "the kernel's code" in transpose.advice, "the trial's digest belongs to no kernel of this version"
    assert softmax.provenance == "estimated" and softmax.verification == "none"
    page = Page(render(report))
    for entry in report.entries:
        assert entry.name in page.text and entry.advice in page.text
    assert "Progress of the search" in page.text and "Layouts and thread maps" in page.text


def test_advice_ends_once_an_entry_is_complete(tmp_path: Path) -> None:
    (schedule,) = schedules(1)
    transpose = template("transpose")
    trial = dataclasses.replace(
        make_trial(schedule, timed(3e-9), PROBLEM),
        kernel_digest=transpose.kernel(PROBLEM, schedule, H200).digest,
        template_version=transpose.version,
    )
    slow = dataclasses.replace(trial, measurement=timed(3e-6), device="h100")
    unchecked = dataclasses.replace(trial, measurement=dataclasses.replace(timed(3e-9), error=None), device="a100")
    with Store.open(tmp_path / "a.db") as store:
        store.extend([trial, slow, unchecked])
        advice = {e.device: e.advice for e in build(store).entries}
    assert advice["h200"] == ""
    assert advice["h100"] == "search longer: 1 trial so far"
    assert advice["a100"].startswith("verify: ")


def trial(seconds: float | None, **values: int) -> Trial:
    result = Measurement(Status.TIMEOUT, Provenance.MEASURED, "slow") if seconds is None else timed(seconds)
    return make_trial(Schedule("toy", tuple(values.items())), result, PROBLEM)


def test_decisions_show_the_slowdown_of_alternatives() -> None:
    best = trial(1.0, a=1, b=1)
    ranked = decisions(
        best, [best, trial(1.5, a=2, b=1), trial(1.2, a=2, b=2), trial(4.0, a=1, b=3), trial(None, a=3, b=1)]
    )
    assert [(d.name, d.worth) for d in ranked] == [("a", 1.2), ("b", 1.2), ("template", None)]
    (two,) = [a for a in ranked[0].alternatives if not a.chosen]
    assert (two.value, two.ratio, two.trials, two.alone) == ("2", 1.2, 2, 1.5)
    assert [(a.value, a.ratio, a.alone) for a in ranked[1].alternatives] == [
        ("1", 1.0, None),
        ("2", 1.2, None),
        ("3", 4.0, 4.0),
    ]


def test_two_databases_are_labelled(database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.db"
    with Store.open(other) as store:
        store.append(make_trial(schedules(2)[1], timed(2e-6), PROBLEM))
        store.append(make_trial(schedules(1)[0], timed(2e-6), Transpose(32, 32)))
    out = tmp_path / "report.html"
    assert run(["report", "--db", str(database), "--out", str(out), "--against", str(other), "--json"]) == 0
    changes = {c["problem"].split()[0] + c["verdict"]: c for c in json.loads(capsys.readouterr().out)["changes"]}
    assert changes["transposeslower"]["ratio"] == pytest.approx(1.5)
    assert changes["transposeslower"]["decisions"]
    assert {"transposeonly in the other", "softmaxonly in this one"} <= changes.keys()
    assert "Compared with" in Page(out.read_text()).text


def test_the_command_rejects_invalid_input_in_one_line(
    database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["report", "--db", str(database)]) == 2
    assert run(["report", "--db", str(database), "--out", str(database)]) == 2
    assert run(["report", "--db", str(tmp_path / "no.db"), "--out", str(tmp_path / "r.html")]) == 2
    assert run(["report", "--db", str(database), "--out", str(tmp_path / "r.html"), "--operator", "copy"]) == 1
    assert capsys.readouterr().err.count("\n") == 4
    assert not (tmp_path / "r.html").exists()
    assert run(["report", "--db", str(database), "--out", str(tmp_path / "r.html")]) == 0
    assert "2 problems, 8 trials" in capsys.readouterr().out


def test_ten_thousand_trials_stay_small(tmp_path: Path) -> None:
    known = schedules(200)
    times = np.random.default_rng(0).lognormal(-12, 0.5, 10_000)
    with Store.open(tmp_path / "a.db") as store:
        store.extend([make_trial(known[i % 200], timed(float(t)), PROBLEM) for i, t in enumerate(times)])
        report = build(store)
    assert len(render(report).encode()) < 1_000_000
    assert report.trials == 10_000


def test_many_problems_stay_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_report, "_BYTES", 150_000)
    (schedule,) = schedules(1)
    with Store.open(tmp_path / "a.db") as store:
        problems = [Transpose(64, 64 + n) for n in range(30)]
        store.extend([make_trial(schedule, timed(1e-6), problem) for problem in problems])
        report = build(store)
    text = render(report)
    assert len(text.encode()) < 150_000 + 30 * 2_000
    left_out = len(report.entries) - len(report.sections)
    assert left_out > 0 and f"{left_out:,} more problems" in Page(text).text


def test_a_panel_draws_every_cell() -> None:
    (panel,) = panels(Drawing("map", WgMap((2, 2), (32, 128)), (128, 128)))
    picture = svg.panel(panel)
    assert picture.count("M") == len(panel.cells) and "subgroups 0, 1" in picture
    assert picture.count("<rect") == len(panel.legend) == 2


@pytest.mark.parametrize(
    ("ago", "text"),
    [(timedelta(), "now"), (timedelta(minutes=1), "1 minute"), (timedelta(days=400), "1 year"), (timedelta(-1), "now")],
)
def test_ages(ago: timedelta, text: str) -> None:
    now = datetime(2026, 11, 23, tzinfo=UTC)
    assert age(now - ago, now) == text
