"""Outputs for CI systems are valid and complete, and escape any text from a database."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from junit_schema import junit_schema

from autosched.regression import outputs
from autosched.regression.outputs import summary
from autosched.regression.report import CheckFinding, CheckReport, EntryStatus
from autosched.reporting import ci
from autosched.verify.verdict import outcome_of
from measurements.trials.timing_statistics import Ratio


def finding(verdict: EntryStatus, name: str = "", reason: str = "", ratio: Ratio | None = None) -> CheckFinding:
    reasons = (reason,) if reason else ()
    timed = {"baseline_seconds": 1e-3, "candidate_seconds": 1.05e-3} if ratio else {}
    numbers: dict[str, float | int | str] = {"registers": 40, "spill_bytes": 0}
    name = name or f"matmul {verdict}"
    return CheckFinding(
        name, "matmul", {"m": 1}, "h200", verdict, reasons, "measured", 1e-3, ratio, numbers=numbers, **timed
    )


SLOW = finding(EntryStatus.SLOWER, reason="confirmed in a second process", ratio=Ratio(1.05, 1.04, 1.06, 40))
EVERY = CheckReport(
    "best.db", "timed", (*(finding(v) for v in EntryStatus if v is not EntryStatus.SLOWER), SLOW), tools={"driver": "1"}
)
FINE = CheckReport("best.db", "static", (finding(EntryStatus.SAME),))
NONE = CheckReport("best.db", "static", ())


def cases(report: CheckReport) -> dict[str, ET.Element]:
    document = ci.junit(summary(report))
    junit_schema().validate(document.decode())
    return {case.attrib["name"]: case for case in ET.fromstring(document).iter("testcase")}


@pytest.mark.parametrize(
    ("status", "entry"),
    [
        ("ok", "sound"), ("wrong_result", "wrong"), ("findings", "wrong"), ("crashed", "wrong"),
        ("compile_error", "broken"), ("device_limit", "broken"), ("timeout", "uncertain"), ("unsupported", "uncertain"),
        ("unverified", "uncertain"),
    ],
)  # fmt: skip
def test_each_verification_status_maps_to_one_entry_status(status: str, entry: str) -> None:
    actual = EntryStatus.of_verdict(status)
    assert actual == entry and actual.fails is (outcome_of(status) == "refused")


@pytest.mark.parametrize(
    ("verdicts", "doubt", "status"),
    [
        ([], "", 2),
        (["same"], "", 0),
        (["faster", "uncertain", "cannot compare"], "", 0),
        (["uncertain"], "", 2),
        (["cannot compare"], "", 2),
        (["same", "stale"], "", 2),
        (["stale", "broken"], "", 1),
        (["same", "slower"], "", 1),
        (["same", "wrong"], "", 1),
        (["same", "broken"], "", 1),
        (["same"], "the control moved", 2),
        (["broken", "uncertain"], "the control moved", 1),
    ],
)
def test_the_exit_status_is_the_verdict_of_the_run(verdicts: list[str], doubt: str, status: int) -> None:
    report = CheckReport(
        "b.db", "timed", tuple(finding(EntryStatus(v), f"entry {i}") for i, v in enumerate(verdicts)), doubt
    )
    assert report.status == status
    assert report.to_json()["status"] == status
    conclusions = {0: "no confirmed regression", 1: "REGRESSION"}
    assert [s for s, text in conclusions.items() if text in report.conclusion] == [status] * (status in conclusions)
    assert doubt in report.conclusion
    junit_cases = cases(report)
    failing = [name for name, case in junit_cases.items() if case.find("failure") is not None]
    assert bool(failing) == (status == 1)
    assert ("the run" in junit_cases) == (status == 2), "an undecided run is not reported as passed"


def test_junit_has_a_case_for_each_entry_with_both_times_and_the_interval() -> None:
    junit_cases = cases(EVERY)
    assert len(junit_cases) == len(EntryStatus)
    failed = {name for name, case in junit_cases.items() if case.find("failure") is not None}
    skipped = {name for name, case in junit_cases.items() if case.find("skipped") is not None}
    assert failed == {"matmul slower", "matmul wrong", "matmul broken"}
    assert skipped == {"matmul uncertain", "matmul cannot compare", "matmul stale"}
    properties = {p.attrib["name"]: p.attrib["value"] for p in junit_cases["matmul slower"].iter("property")}
    assert properties["verdict"] == "slower"
    assert (float(properties["baseline_seconds"]), float(properties["candidate_seconds"])) == (1e-3, 1.05e-3)
    assert [float(properties[k]) for k in ("ratio", "ratio_low", "ratio_high")] == [1.05, 1.04, 1.06]
    suite = ET.fromstring(ci.junit(summary(EVERY))).find("testsuite")
    assert suite is not None
    assert [suite.attrib[k] for k in ("tests", "failures", "skipped", "errors")] == [
        str(len(EntryStatus)),
        "3",
        "3",
        "0",
    ]


@pytest.mark.parametrize("report", [FINE, NONE, EVERY])
def test_excluded_trials_are_in_every_report(report: CheckReport) -> None:
    left_out = "7 trials that were verified with an earlier reference are skipped"
    extended = replace(report, left_out=left_out)
    assert extended.status == report.status and extended.to_json()["left_out"] == left_out
    assert extended.conclusion == f"{report.conclusion}; {left_out}" and left_out in ci.markdown(summary(extended))
    properties = {
        p.attrib["name"]: p.attrib["value"] for p in ET.fromstring(ci.junit(summary(extended))).iter("property")
    }
    assert properties["left_out"] == left_out and "left_out" not in ci.junit(summary(report)).decode()


def test_the_summary_lists_failures_first_and_reports_omitted_rows() -> None:
    text = ci.markdown(summary(EVERY))
    rows = [line for line in text.splitlines() if line.startswith("| 🔴") or line.startswith("| 🟢")]
    assert rows[0].startswith("| 🔴") and "+5.0% (+4.0 to +6.0)" in text and "confirmed in a second process" in text
    many = CheckReport("b.db", "static", tuple(finding(EntryStatus.SAME, f"e{i}") for i in range(300)))
    assert "100 of 300 cases" in ci.markdown(summary(many))
    assert "nothing was checked" in ci.markdown(summary(NONE))


def test_annotations_name_every_failure() -> None:
    lines = ci.workflow_commands(summary(EVERY))
    assert len([line for line in lines if line.startswith("::error ")]) == 3
    assert len([line for line in lines if line.startswith("::warning ")]) == 3
    assert ci.workflow_commands(summary(FINE)) == []
    assert ci.workflow_commands(summary(NONE))[0].startswith("::error title=autosched check::")


def test_annotations_name_the_file_of_the_entry() -> None:
    wrong = finding(EntryStatus.WRONG, "E=8,N=16.json: 64 rows")
    in_a_file = replace(wrong, file="configs/E=8,N=16.json")
    of_folder, of_file = ci.workflow_commands(summary(CheckReport("configs", "configs", (wrong, in_a_file))))
    assert of_folder.startswith("::error file=configs,title=")
    assert of_file.startswith("::error file=configs/E=8%2CN=16.json,title=")


HOSTILE = "x\n::error::gotcha%0A|`<script>alert(1)</script>&\x00\x1b[31m‮,title=y:z"


def test_hostile_names_and_reasons_stay_text() -> None:
    bad = CheckReport(HOSTILE, "timed", (finding(EntryStatus.SLOWER, HOSTILE, HOSTILE),), HOSTILE)
    (case,) = [c for c in cases(bad).values() if c.find("failure") is not None]
    assert "<script>" in case.attrib["name"], "as text"
    lines = ci.workflow_commands(summary(bad))
    assert all(line.startswith("::error ") and "\n" not in line and "\r" not in line for line in lines)
    assert all(line.isprintable() for line in lines)
    assert "%3A%3Aerror" in lines[0].partition("::x")[0], "colons in properties are escaped"
    text = ci.markdown(summary(bad))
    assert "<script>" not in text and "\n::error" not in text
    rows = [line for line in text.splitlines() if line.startswith("| 🔴")]
    assert len(rows) == 1 and rows[0].replace("\\|", "").count("|") == 8


@settings(max_examples=60)
@given(st.text(max_size=40), st.sampled_from(list(EntryStatus)))
def test_any_text_gives_valid_documents(text: str, verdict: EntryStatus) -> None:
    report = CheckReport(text, "timed", (finding(verdict, text or "x", text),))
    text_of_xml = ci.junit(summary(report)).decode("utf-8", "strict")
    junit_schema().validate(text_of_xml)
    assert all("\n" not in line for line in ci.workflow_commands(summary(report)))
    json.dumps(report.to_json(), allow_nan=False)


def test_dashboards_receive_ratios_of_one_run() -> None:
    (entry,) = [e for e in outputs.action_benchmark(EVERY) if e["name"] == "matmul slower"]
    assert entry == {"name": "matmul slower", "unit": "times the baseline", "value": 1.05, "range": "± 1.00%"}
    static = outputs.action_benchmark(FINE)
    assert {(e["name"], e["value"]) for e in static} == {
        ("matmul same: registers", 40),
        ("matmul same: spill_bytes", 0),
    }
    metrics = outputs.bencher(EVERY)["matmul slower"]
    assert metrics["ratio"] == {"value": 1.05, "lower_value": 1.04, "upper_value": 1.06}
    assert metrics["latency"]["value"] == pytest.approx(1.05e6), "nanoseconds"
    for measures in outputs.bencher(EVERY).values():
        for measure in measures.values():
            assert set(measure) <= {"value", "lower_value", "upper_value"}
            assert all(isinstance(v, (int, float)) for v in measure.values())
