"""One table explains the parameters of all templates. Each concept has one name."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.programs.loading import load_program, problem
from search_spaces.catalogue import BUILT_IN_TEMPLATES
from search_spaces.hardware.devices import device
from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Reduce, Softmax
from search_spaces.operators.transpose import Transpose
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.template import template as program_template
from search_spaces.templates.parameter_names import OWN, PROGRAM, SHARED, matches, meaning

MATMUL = Matmul(512, 512, 512)
PROBLEMS: dict[str, tuple[Problem, ...]] = {
    "matvec": (Matvec(4, 4096, 4096),),
    "row_reduction": (Softmax(64, 4096), Reduce(64, 4096, axis="column")),
    "transpose": (Transpose(64, 64),),
    "copy": (Copy(64, 64),),
}
NAMES = {
    template.name: {
        p.name
        for problem in PROBLEMS.get(template.name, (MATMUL,))
        for p in template.load().space(problem, device("b200" if "tcgen05" in template.name else "h100")).parameters
    }
    for template in BUILT_IN_TEMPLATES
}
PROGRAMS = {
    "attention.py:full_attention": {"h": 4, "g": 4, "s": 512, "d": 64},
    "gemm_relu": {"m": 512, "n": 512, "k": 512},
    "matmul_softmax": {"m": 512, "n": 512, "k": 64},
    "quantize_rows.py:quantize_rows": {"m": 64, "n": 512},
    "softmax_rows.py:long_softmax": {"m": 64, "n": 5000},
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_all_parameters_of_a_program_are_in_the_table_or_sizes_that_it_leaves_open(program: str) -> None:
    path = Path(__file__).parents[3] / "examples" / "programs" / program
    program_problem = problem(
        load_program(str(path if ":" in program else path.with_suffix(".py"))), **PROGRAMS[program]
    )
    names = {
        p.name for p in program_template(program_problem.program).space(program_problem, device("h100")).parameters
    }
    assert {n for n in names - set(choices_of(program_problem).domains) if meaning(PROGRAM, n) is None} == set()


@pytest.mark.parametrize("template", NAMES)
def test_all_parameters_of_a_template_are_in_the_table(template: str) -> None:
    assert {name for name in NAMES[template] if meaning(template, name) is None} == set()


@pytest.mark.parametrize("template", [name for name in OWN if name != PROGRAM])
def test_a_template_has_all_parameters_that_are_listed_as_its_own(template: str) -> None:
    assert {p for p in OWN[template] if not any(matches(p, name) for name in NAMES[template])} == set()


@pytest.mark.parametrize("pattern", SHARED)
def test_shared_names_are_used_by_several_templates(pattern: str) -> None:
    users = {t.removesuffix("_transposed") for t, names in NAMES.items() if any(matches(pattern, n) for n in names)}
    assert len(users) > 1 or pattern == "in_flight", "in_flight is also a parameter of tile programs"
    assert all(pattern not in own for own in OWN.values())
