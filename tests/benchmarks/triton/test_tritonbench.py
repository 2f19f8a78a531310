"""The page of results of TritonBench_G, and what is judged of its findings."""

# mypy: ignore-errors
from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from needs import needs_compiler

pytest.importorskip("torch", reason="torch is not installed: pip install 'autosched[torch]'")
pytest.importorskip("triton", reason="Triton is not installed: pip install 'autosched[triton]'")

import triton

from benchmarks.triton.tritonbench import Found, Judged, Outcome, page, read, run_all

CLEAN = Outcome("clean_file", "", "3.9.0", 8, 3.0, 2.0, 4, 1, 10, "", ())
FAULT = Found("fault", "out_of_bounds_global", "with_bug.py", 12, "kernel", "reads beyond")
WITH_BUG = replace(CLEAN, name="with_bug", found=(FAULT, replace(FAULT, grade="note", line=3)))
OF_COMPILER = replace(CLEAN, name="of_compiler", found=(replace(FAULT, kind="missing_proxy_fence"),))
JUDGED = Judged(("with_bug", "unseen"), {"with_bug": (True, "No mask.")}, {}, {"missing_proxy_fence": "Not the file's"})


def test_every_judgement_has_a_reason() -> None:
    judged = Judged.read()
    assert len(set(judged.confirmed)) == 24
    assert all(why for _, why in judged.findings.values()) and all(judged.failures.values())


def test_what_the_page_counts() -> None:
    ended = replace(CLEAN, name="slow", failure="the program was ended after 9 s")
    text = page([CLEAN, WITH_BUG, OF_COMPILER, ended], JUDGED, "command", "h100")
    assert "Of the 2 files with confirmed bugs, 1 are reported" in text
    assert "| with_bug | out_of_bounds_global 12 | No mask. |" in text and "| unseen | - | not reported |" in text
    assert "Of the 3 others that were run, 0 have findings" in text
    assert "Not the file's. In 1 files: of_compiler." in text
    assert "1 of 4 files did not run to their end" in text and "| slow | the program was ended after 9 s |" in text


def test_a_finding_that_nobody_has_read_and_a_false_one() -> None:
    new = replace(WITH_BUG, name="new")
    assert "0 true, 0 false, 1 not read" in page([CLEAN, new], JUDGED, "command", "h100")
    false = replace(JUDGED, findings={"new": (False, "It is masked.")})
    text = page([CLEAN, new], false, "command", "h100")
    assert "0 true, 1 false, 0 not read" in text and "**False.** It is masked." in text


@pytest.mark.parametrize(
    ("outcome", "again"),
    [
        (CLEAN, False),
        (replace(CLEAN, launches=0), True),  # it may have caught the error
        (replace(CLEAN, failure="the program raised CompilationError: at 3:1"), True),
        (replace(CLEAN, failure="the program raised ValueError: no luck", launches=0), False),
        (replace(CLEAN, failure="the program was ended after 9 s"), False),  # with as many blocks
    ],
)
def test_what_another_triton_may_compile_runs_again(outcome: Outcome, again: bool) -> None:
    assert replace(outcome, triton="1.0").runs_again(8) == again
    assert not replace(outcome, triton=triton.__version__).runs_again(8)


@needs_compiler
def test_files_run_once(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import triton\nraise ValueError('no luck')\n")
    (tmp_path / "known.py").write_text("raise AssertionError('not to be run')\n")
    journal = tmp_path / "journal.jsonl"
    journal.write_text(json.dumps(asdict(replace(WITH_BUG, name="known"))) + "\n")
    done = run_all(tmp_path, ["broken", "known"], journal, "h100", 8, 60.0, 1)
    assert [(o.name, o.failure) for o in done] == [("broken", "the program raised ValueError: no luck"), ("known", "")]
    assert {o.name for o in read(journal)} == {"broken", "known"} and read(journal)[0].faults == [FAULT]
