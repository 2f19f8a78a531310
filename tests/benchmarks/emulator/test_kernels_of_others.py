"""The benchmark over kernels of other people's repositories: which it runs, how their ends are told, its page."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from benchmarks.emulator.kernels_of_others.__main__ import HERE, read
from benchmarks.emulator.kernels_of_others.cuda_programs import judged, kernels_of
from benchmarks.emulator.kernels_of_others.outcome import Outcome
from benchmarks.emulator.kernels_of_others.page import page
from benchmarks.emulator.kernels_of_others.triton_programs import triton_kernels

RECIPE = {"name": "a/b", "right": "All match", "wrong": "Mismatch", "numbers": r"case (\d+):", "most": 20}


def test_kernels_are_the_cases_of_a_program_that_are_no_sizes(tmp_path: Path) -> None:
    source = tmp_path / "k.cu"
    source.write_text("switch (k) { case 2: a(); case 10: b(); } switch (size) { case 256: c(); }")
    assert kernels_of(RECIPE, source) == ["2", "10"]
    source.write_text("int main() {}")
    assert kernels_of(RECIPE, source) == [""]
    assert kernels_of({"arguments": ["7"]}, source) == ["7"]


@pytest.mark.parametrize(
    ("said", "document", "late", "verdict"),
    [
        ("All match", {"launches": 1}, False, "right"),
        ("Mismatch at 3\nAll match", {"launches": 1}, False, "wrong"),
        ("", {"launches": 1, "status": -6}, False, "died"),
        ("", {"launches": 0}, False, "no launch"),
        ("All match", {"launches": 1, "lacking": ["tex.cube"]}, False, "unsupported"),
        ("", {"launches": 1, "findings": [{"kind": "timeout", "message": "not done"}]}, False, "time limit"),
        ("All match", {"launches": 1}, True, "time limit"),
    ],
)
def test_how_a_kernel_ended(said: str, document: dict[str, object], late: bool, verdict: str) -> None:
    assert judged(RECIPE, said, document, late=late)[0] == verdict


def test_each_recipe_can_be_read_and_each_triton_program_has_kernels() -> None:
    recipes = read(HERE / "recipes.toml")
    assert {"karpathy/llm.c", "siboehm/SGEMM_CUDA", "pranjalssh/fast.cu"} <= {r["name"] for r in recipes.repository}
    for recipe in recipes.triton:
        assert len(triton_kernels(recipe)) > 10
    for reading in recipes.readings:
        assert reading["judged"] in ("true", "false") and reading["why"] and reading["kinds"]


def test_the_page_counts_kernels_and_says_who_read_a_finding() -> None:
    race = {"kind": "global_race", "file": "/x/k.cu", "line": 3, "message": "m", "count": 2}
    note = {"kind": "global_race", "grade": "note", "file": "/x/k.cu", "line": 4, "message": "m"}
    outcomes = [
        Outcome("a/b", "k.cu", "1", "right", findings=[race, note]),
        Outcome("a/b", "k.cu", "2", "wrong", "differs"),
        Outcome("a/b", "k.cu", "3", "time limit", "late"),
    ]
    limits = argparse.Namespace(launch_limit=30.0, time_limit=60.0)
    reading = {"repository": "a/b", "source": "k.cu", "kinds": ["global_race"], "judged": "true", "why": "no barrier"}
    text = page(outcomes, [reading], {"a/b": "abc1234"}, limits)
    assert "**2 of 3 kernels ran to their end, 1 of them right.** Faults were found in 1: 1 true." in text
    assert "| b k.cu 1 | global_race | k.cu:3 | 2 | true | no barrier |" in text
    assert "| a/b | abc1234 | 1 | 1 | 1 |" in text
    assert "not read" in page(outcomes, [{**reading, "kernels": ["2"]}], {}, limits)
