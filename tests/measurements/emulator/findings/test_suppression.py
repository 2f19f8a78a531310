"""Findings that a user lists as expected are suppressed, and findings with the same cause are grouped."""

from __future__ import annotations

import pytest

from measurements.emulator import Emulation, Finding, FindingKind, Suppression, by_cause, suppress

K = FindingKind
RACE = Finding(K.GLOBAL_RACE, "races", "src/bfs.cu", 31)
BOUNDS = Finding(K.OUT_OF_BOUNDS_GLOBAL, "beyond", "src/bfs.cu", 40)
NOTE = Finding(K.GLOBAL_RACE, "races", "src/bfs.cu", 50, grade="note")


def emulation(*findings: Finding, status: str = "findings") -> Emulation:
    return Emulation(status, {}, findings, (), (), reason="something")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("global_race:bfs.cu:31:all store true", (BOUNDS, NOTE)),
        ("global_race:src/bfs.cu:*:all store true", (BOUNDS,)),
        ("*:bfs.cu:40:padding: it is allocated", (RACE, NOTE)),
        ("*:fs.cu:31:no such file", (RACE, BOUNDS, NOTE)),
        ("shared_race:bfs.cu:31:another kind", (RACE, BOUNDS, NOTE)),
        ("*:bfs.cu:*:all of it", ()),
    ],
)
def test_a_suppression_names_kind_file_and_line(text: str, left: tuple[Finding, ...]) -> None:
    done = suppress(emulation(RACE, BOUNDS, NOTE), [Suppression.parse(text)])
    assert done.findings == left
    assert {f for f, _ in done.suppressed} == {RACE, BOUNDS, NOTE} - set(left)
    assert all(reason == text.split(":", 3)[3] for _, reason in done.suppressed)
    assert done.status == ("findings" if any(f.is_fault for f in left) else "ok")
    assert bool(done.reason) == (done.status == "findings")


@pytest.mark.parametrize(
    "text", ["", "global_race", "global_race:a.cu:3", "race:a.cu:3:why", "*:a.cu:three:why", "*:a.cu:3: "]
)
def test_invalid_suppressions_are_rejected_in_one_line(text: str) -> None:
    with pytest.raises(ValueError, match="KIND:FILE:LINE:REASON") as error:
        Suppression.parse(text)
    assert "\n" not in str(error.value)


def test_a_launch_that_did_not_end_keeps_its_findings() -> None:
    timeout = emulation(Finding(K.TIMEOUT, "not done", "bfs.cu", 31), status="timeout")
    assert suppress(timeout, [Suppression.parse("*:bfs.cu:*:slow")]) is timeout


def test_accesses_that_share_a_line_have_one_cause() -> None:
    def race(line: int, other: int, kind: FindingKind = K.SHARED_RACE) -> Finding:
        return Finding(kind, "races", "k.cu", line, other=f"k.cu:{other}")

    one, two, apart, same = race(10, 5), race(11, 5), race(30, 20), race(12, 11, K.ASYNC_READ_BEFORE_WAIT)
    bounds = Finding(K.OUT_OF_BOUNDS_SHARED, "beyond", "k.cu", 10)
    assert by_cause([one, apart, two, bounds, same]) == [[one, two, same], [apart], [bounds]]
    bridge = race(20, 10)
    assert by_cause([one, apart, bridge]) == [[one, apart, bridge]]
    assert by_cause([]) == []
