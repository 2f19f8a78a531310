"""Golden files of twelve programs: canonical text, distributions of tiles over threads, and generated CUDA.

`--update-golden` accepts the present output for the same schedules.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from random_schedules import random_schedule

from autosched.programs.loading import load_program, problem
from search_spaces.hardware.devices import device
from search_spaces.programs.schedules import describe
from search_spaces.programs.template import template
from search_spaces.programs.text.printer import text
from search_spaces.spaces.schedule import Schedule

A100 = device("a100")
GOLDEN = Path(__file__).parent / "golden"
EXAMPLES = Path(__file__).parents[3] / "examples"
PROGRAMS = {
    "programs/gemm_relu.py": {"m": 4096, "n": 4096, "k": 4096},
    "programs/attention.py:causal_attention": {"h": 8, "g": 2, "s": 1000, "d": 64},
    "programs/gated_mlp.py": {"m": 512, "n": 1024, "k": 512},
    "programs/layernorm_matmul.py": {"m": 300, "n": 512, "k": 256},
    "programs/int4_matmul.py": {"m": 128, "n": 256, "k": 512, "half": 256, "groups": 4},
    "programs/paged_attention.py": {"h": 8, "g": 2, "s": 32, "d": 64, "pages": 16, "places": 1024},
    "programs/cross_entropy.py": {"m": 40, "n": 3000},
    "programs/narrow_matmul.py:tf32_matmul": {"m": 512, "n": 512, "k": 512},  # multiplies with wmma
    "programs/narrow_matmul.py:int8_matmul": {"m": 2048, "n": 2048, "k": 2048},  # stream-K, two buffers of fragments
    "seeds/gemm_reduction.py": {"m": 512, "n": 512, "k": 512},
    "seeds/gemm_shared.py": {"m": 512, "n": 512, "k": 512},
    "seeds/matvec.py:matvec_expanded": {"m": 4, "n": 6656, "k": 16384},
}


@pytest.mark.parametrize("path", PROGRAMS)
def test_golden(path: str, request: pytest.FixtureRequest) -> None:
    program = load_program(str(EXAMPLES / path))
    p, kernel_template, file = problem(program, **PROGRAMS[path]), template(program), GOLDEN / f"{program.name}.txt"
    update = bool(request.config.getoption("--update-golden"))
    if file.exists():
        schedule = Schedule.from_json(program.name, json.loads(file.read_text("utf-8").splitlines()[0]))
    else:
        assert update, f"there is no {file}: run with --update-golden"
        schedule = random_schedule(kernel_template.space(p, A100), 1)
    plan = [
        f"{v.location}: {v.operation} {v.shape}: {v.spread}: {v.distribution}"
        for v in describe.values(p, schedule.values)
    ]
    plan += [
        f"{c.location}: {c.shape} {c.source} -> {c.target}: {c.route}" for c in describe.conversions(p, schedule.values)
    ]
    code = "\n".join(
        [
            json.dumps(dict(schedule.items)),
            text(program.trace(p.sizes, {n: schedule.integer(n) for n in program.domains(p.sizes)})),
            *plan,
            kernel_template.kernel(p, schedule, A100).source,
        ]
    )
    if update:
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(code, "utf-8")
    assert code == file.read_text("utf-8"), "the emitted code has changed: review it, then run with --update-golden"
