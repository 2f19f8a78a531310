"""Choose the kernels with which a mutant is verified, and their order.

Kernels that differ only in size execute the same code. So the next case is the case with the most new traits (values of
the problem and the schedule) per second of verification time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache

from benchmarks.emulator.mutants import Mutant
from benchmarks.emulator.mutation_cases import Case
from measurements.emulator.ptx.digest import instructions
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers

OF_CASE = "PTX of "  # for a mutant of a golden case's PTX, this prefix and the case's name replace the header's name
# seconds to compile a case, and the cost (``Case.cost``) of a case whose verification takes one second
_FIXED_SECONDS, _COST_OF_A_SECOND = 0.6, 2e10
_SIZES = ("m", "n", "k", "rows", "columns")
_INCLUDED = re.compile(r"#include <([^>]*)>")
_REGISTER = re.compile(r"%(p|rs|rd|r|fd|f)\d+\b")


def cases_of(
    mutant: Mutant, cases: Iterable[Case], tried: Sequence[Case], ptx: Callable[[Case], str]
) -> Iterator[Case]:
    """Return the cases that contain the mutant.

    For a mutant of a header, these are the cases that have an instruction from the mutated line. If no case has one,
    for example because the line is evaluated at compile time, all cases that include the header are returned.

    Args:
        mutant: Mutant to verify.
        cases: All cases.
        tried: Cases that were verified. The caller appends to this list.
        ptx: Returns the PTX of a correct kernel.
    """
    if mutant.header.startswith(OF_CASE):
        yield from (case for case in cases if mutant.header == OF_CASE + case.name)
        return
    source_line = (f"autosched/{mutant.header}", mutant.line)
    reached, without = False, list[Case]()
    for case in _by_new_traits((case for case in cases if includes(case.kernel, mutant.header)), tried):
        if source_line in _lines_of_ptx(ptx(case)):
            reached = True
            yield case
        else:
            without.append(case)
    if not reached:
        yield from _by_new_traits(without, tried)


def _by_new_traits(cases: Iterable[Case], tried: Sequence[Case]) -> Iterator[Case]:
    """Yield all ``cases``. Each time, choose the case with the most new traits per second.

    A trait is new if no case in ``tried`` has it.
    """
    left = sorted(cases, key=lambda case: (case.cost, case.name))
    while left:
        seen: frozenset[object] = frozenset().union(*map(traits, tried))
        best = max(left, key=lambda case: len(traits(case) - seen) / seconds(case)) if tried else left[0]
        left.remove(best)
        yield best


def seconds(case: Case) -> float:
    """Return the approximate seconds to compile and verify a case."""
    return _FIXED_SECONDS + case.cost / _COST_OF_A_SECOND


@lru_cache(maxsize=512)
def traits(case: Case) -> frozenset[object]:
    """Return the traits of a case.

    The traits describe the values in the problem and the schedule. The trait of a text is the text itself. The traits
    of a number tell whether it is 0, 1 or larger; the traits of a size tell whether it is odd and whether it is 1.
    """
    case_traits: set[object] = {("template", case.schedule.template)}
    for name, value in case.problem.to_json().items():
        known = (value == 1, int(value) % 2) if name in _SIZES else _few(value)
        case_traits.add((name, known))
    case_traits |= {(f"schedule {name}", _few(value)) for name, value in case.schedule.to_json().items()}
    return frozenset(case_traits)


def _few(value: object) -> object:
    return min(value, 2) if isinstance(value, int) else str(value)


def includes(kernel: GeneratedKernel, header: str) -> bool:
    """Return True if the kernel's source includes ``header``, directly or indirectly."""
    return f"autosched/{header}" in _included(frozenset(_INCLUDED.findall(kernel.source)), kernel.headers)


@lru_cache(maxsize=256)
def _included(names: frozenset[str], headers: Headers) -> frozenset[str]:
    """Return ``names`` and the names of all files that these files include, directly or indirectly."""
    files = dict(headers.files)
    seen: set[str] = set()
    todo = [*names]
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += _INCLUDED.findall(files.get(name, ""))
    return frozenset(seen)


@lru_cache(maxsize=256)
def _lines_of_ptx(text: str) -> frozenset[tuple[str, int]]:
    """Return the header lines from which a program's instructions come, and the lines at which they are inlined."""
    names = {match[1]: match[2] for match in re.finditer(r'^\s*\.file\s+(\d+)\s+"([^"]*)"', text, re.MULTILINE)}
    locations = re.finditer(r"(?:\.loc|inlined_at)\s+(\d+)\s+(\d+)", text)
    return frozenset((names[location[1]], int(location[2])) for location in locations)


@lru_cache(maxsize=256)
def program(text: str) -> str:
    """Return the instructions of PTX, with registers numbered in the order of their first use.

    Equal results mean equal programs.
    """
    numbers: dict[str, str] = {}

    def numbered(match: re.Match[str]) -> str:
        return numbers.setdefault(match[0], f"%{match[1]}{len(numbers)}")

    body = "\n".join(line for line in instructions(text) if not line.startswith("\t.reg "))
    return _REGISTER.sub(numbered, body)
