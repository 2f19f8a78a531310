"""Findings in tile programs name exactly the line of the faulty operation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from autosched.programs.loading import load_program, problem
from measurements.emulator import emulate
from search_spaces.hardware.devices import Device, device
from search_spaces.programs.planning.choices import choices_of
from search_spaces.programs.problem import ProgramProblem
from search_spaces.programs.template import template

EXAMPLES = Path(__file__).parents[3] / "examples"
SIZES = {
    "e": 63,
    "h": 2,
    "g": 1,
    "d": 64,
    "m": 64,
    "n": 64,
    "k": 64,
    "half": 32,
    "groups": 1,
    "words": 40,
    "tokens": 40,
}
PROGRAMS = sorted(
    f"{path.relative_to(EXAMPLES)}:{name}"
    for folder in ("programs", "seeds")
    for path in (EXAMPLES / folder).glob("*.py")
    for name in re.findall(r"^@program\(.*?^def (\w+)\(p", path.read_text("utf-8"), re.M | re.S)
)
A100, H100, RTX5090 = device("a100"), device("h100"), device("rtx5090")


def line_directives(source: str) -> list[tuple[str, str]]:
    """Return each line of the kernel's body as (directive, line). The #line directive before it is "" if missing."""
    lines = source.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("#line"))
    directives = []
    for i in range(first, len(lines)):
        if not lines[i].startswith("#"):
            directives.append((lines[i - 1] if lines[i - 1].startswith("#line") else "", lines[i]))
    return directives


def of_example(program_path: str) -> ProgramProblem:
    example = load_program(str(EXAMPLES / program_path))
    return problem(example, **{size: SIZES.get(size, 64) for size in example.sizes})


@pytest.mark.parametrize("program_path", PROGRAMS)
def test_each_line_directive_refers_to_an_operation(program_path: str) -> None:
    p = of_example(program_path)
    own = template(p.program)
    where = next(gpu for gpu in (A100, H100, RTX5090) if own.why_not(p, gpu) is None)
    for schedule in own.space(p, where).sample(3, 1):
        operations = choices_of(p).inference(schedule.values).trace.walk()
        known = {f'#line {o.source.line} "{o.source.file}"' for o, _ in operations}
        for directive, line in line_directives(own.kernel(p, schedule, where).source):
            assert directive in known, line


@pytest.mark.parametrize("where", [A100, H100])
def test_a_race_is_reported_at_the_store(tmp_path: Path, where: Device) -> None:
    path = tmp_path / "all_to_row_zero.py"
    path.write_text(
        "from search_spaces.programs.builder import Input, Output, program\n"
        '@program(x=Input("m n", "f16"), w=Input("n n", "f16"), out=Output("m n", "f32"))\n'
        "def racing(p, x, w, out):\n"
        "    i, j = p.blocks(out.shape, (32, 32))\n"
        "    left = p.load(p.window(x, (i, 0), (32, 32)))\n"
        "    made = p.mma(left, p.load(p.window(w, (0, j), (32, 32))))\n"
        "    p.store(p.exp(made), p.window(out, (0, j), (32, 32)))\n"
    )
    p = problem(load_program(str(path)), m=64, n=32)
    own = template(p.program)
    run = emulate(own.kernel(p, own.space(p, where).sample(1, 1)[0], where), p.random_inputs(0), time_limit=60.0)
    assert run.status == "findings"
    assert set(re.findall(r"all_to_row_zero\.py:(\d+)", str(run.findings))) == {"7"}
