"""A newcomer meets no word that only this project uses: prose is of the dictionary, the glossary and the field's terms.

``docs/contributing/terms.txt`` lists terms that a dictionary lacks: instructions, formats, names of libraries and
people. What the project called things by before is in ``RETIRED``, with the word to use instead.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

spellchecker = pytest.importorskip("spellchecker")

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = [
    p for top in ("autosched", "measurements", "search_spaces", "cost_models") for p in (ROOT / top).rglob("*.py")
]
GLOSSARY = ROOT / "docs" / "contributing" / "glossary.md"
TERMS = ROOT / "docs" / "contributing" / "terms.txt"

RETIRED = {
    "Advised": "SeededSampler",
    "AskedLaunch": "LaunchOverride",
    "BEHIND": "NEIGHBOUR_SLACK",
    "CONDEMNING": "FAILURE_STATUSES",
    "FARTHEST": "MAX_DOUBLINGS",
    "Facts": "ArraySpec",
    "Foresighted": "Sampler.expected_gain",
    "Generational": "Sampler.batch",
    "GrowingPosterior": "IncrementalPosterior",
    "KeyDistance": "ProblemDistance",
    "Outlook": "AcquisitionState",
    "Pace": "InFlightLimit",
    "TrialBook": "TrialLedger",
    "Unframer": "MessageDecoder",
    "Unseen": "UnvisitedPool",
    "array_plans": "call_signature",
    "condemn": "mark as wrong, reject",
    "condemned": "marked as wrong, rejected",
    "condemns": "marks as wrong, rejects",
    "foreign_text": "sanitize",
    "key_distance": "problem_distance",
    "library_choice": "vendor_library",
    "provoking": "stress",
    "provoking_inputs": "stress_inputs",
    "remeasurement": "paired_timing",
    "whole_file": "atomic_write",
}


def prose(text: str) -> str:
    """Markdown or a docstring without code, addresses and formulas."""
    for pattern in (
        r"```.*?```",
        r"``.*?``",
        r"`[^`]*`",
        r"(?m)^ {4,}\S.*=.*$",
        r"\]\([^)]*\)",
        r"https?://\S+",
        r"<[^>]*>",
    ):
        text = re.sub(pattern, " ", text, flags=re.DOTALL)
    return text


def words(text: str) -> Iterator[str]:
    """Lower-case words; no abbreviations in capitals and no names of code."""
    for token in re.findall(r"[\w./:-]*[A-Za-z][\w'./:-]*", prose(text)):
        if re.search(r"[_/\d:]|\w\.\w|[a-z][A-Z]", token):
            continue
        for word in re.split(r"[-.]", token):
            plain = re.sub(r"['](s|t|d|ll|re|ve)?$", "", word)
            if len(plain) > 2 and not plain.isupper():
                yield plain.lower()


@cache
def docstrings(path: Path) -> str:
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            found.append(ast.get_docstring(node) or "")
    return "\n\n".join(found)


def known_terms() -> set[str]:
    glossary = set(re.findall(r"[a-z]+", GLOSSARY.read_text("utf-8").lower()))
    lines = [line.partition("#")[0] for line in TERMS.read_text("utf-8").splitlines()]
    return glossary | {word.lower() for line in lines for word in line.split()}


def unknown(texts: dict[str, str]) -> dict[str, str]:
    """Words that are in no list, and where they stand first."""
    seen: dict[str, str] = {}
    for where, text in texts.items():
        for word in words(text):
            seen.setdefault(word, where)
    terms = known_terms()
    checker = spellchecker.SpellChecker(language="en", distance=1)
    return {w: seen[w] for w in sorted(checker.unknown(seen)) if w not in terms and w.removesuffix("s") not in terms}


def test_pages_use_words_of_the_dictionary_and_the_field() -> None:
    assert unknown({str(page.relative_to(ROOT)): page.read_text("utf-8") for page in PAGES}) == {}


def test_docstrings_use_words_of_the_dictionary_and_the_field() -> None:
    assert unknown({str(p.relative_to(ROOT)): docstrings(p) for p in MODULES}) == {}


def test_a_word_that_nobody_knows_is_found() -> None:
    assert unknown({"here": "A frobulated kernel, in `frobulation`, waits at an mbarrier."}) == {"frobulated": "here"}


def test_no_term_is_listed_twice() -> None:
    lines = [line.partition("#")[0] for line in TERMS.read_text("utf-8").splitlines()]
    listed = [word.lower() for line in lines for word in line.split()]
    assert len(listed) == len(set(listed))


def test_retired_words_do_not_come_back() -> None:
    pattern = re.compile(rf"\b({'|'.join(RETIRED)})\b")
    places = [(p.name, old, RETIRED[old]) for p in (*PAGES, *MODULES) for old in pattern.findall(p.read_text("utf-8"))]
    assert places == [], "say the last of each instead"
