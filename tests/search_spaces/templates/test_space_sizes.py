"""The number of schedules of each kernel template for a small problem is recorded, to reveal changes of rules.

``pytest tests/search_spaces/templates --update-golden`` accepts the present counts; review the diff.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from search_spaces.catalogue import BUILT_IN_TEMPLATES, template
from search_spaces.hardware.devices import device
from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.matvec import Matvec
from search_spaces.operators.problem import Problem
from search_spaces.operators.row_reduction import Softmax
from search_spaces.operators.transpose import Transpose

SIZES = Path(__file__).with_name("space_sizes.json")
MATMUL = Matmul(512, 512, 512)
ODD = Matmul(512, 511, 509)
CASES: dict[str, tuple[Problem, str]] = {
    "copy": (Copy(1000, 1000), "h200"),
    "transpose": (Transpose(1000, 1000), "h200"),
    "row_reduction": (Softmax(4096, 1000), "h200"),
    "matvec": (Matvec(1, 4096, 4096), "h200"),
    "matmul": (MATMUL, "a100"),
    "tma_matmul": (MATMUL, "rtx5090"),
    "wgmma_matmul": (MATMUL, "h200"),
    "wgmma_matmul_transposed": (MATMUL, "h200"),
    "tcgen05_matmul": (MATMUL, "b200"),
    "tcgen05_matmul_transposed": (MATMUL, "b200"),
    "wgmma_matmul_padded": (ODD, "h200"),
    "tcgen05_matmul_padded": (ODD, "b200"),
    "tma_matmul_padded": (ODD, "rtx5090"),
}


def test_spaces_keep_their_sizes(request: pytest.FixtureRequest) -> None:
    counted = {name: template(name).space(problem, device(gpu)).count() for name, (problem, gpu) in CASES.items()}
    if request.config.getoption("--update-golden"):
        SIZES.write_text(json.dumps(counted, indent=2) + "\n")
    assert counted == json.loads(SIZES.read_text()), "read the rules that have changed, then run with --update-golden"


def test_every_template_has_a_case() -> None:
    assert {row.name for row in BUILT_IN_TEMPLATES} == set(CASES)
