"""The Python interface emulates tile programs on arrays, and looks up their schedules in a database by size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import autosched
from autosched.programs.loading import load_program, problem
from measurements.trials.measurement import Provenance
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.programs.template import template

PROGRAM = str(Path(__file__).parents[3] / "examples" / "programs" / "gemm_relu.py")


def arrays(m: int = 70, n: int = 40, k: int = 32) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(shape).astype("f2") for shape in ((m, k), (k, n)))
    return [a, b, rng.standard_normal(n).astype("f4"), np.zeros((m, n), "f2")]


@pytest.mark.parametrize("where", ["a100", ""])
def test_a_program_is_emulated_on_arrays(where: str) -> None:
    """The default device is an H200."""
    program, arguments = load_program(PROGRAM), arrays()
    emulation = autosched.emulate(program, arguments=arguments, device=where)
    assert emulation.ok, emulation.reason
    a, b, bias = (x.astype("f8") for x in arguments[:3])
    np.testing.assert_allclose(emulation.arrays[-1], np.maximum(a @ b + bias, 0), rtol=2e-3, atol=2e-2)
    assert not arguments[-1].any(), "arguments are not changed"
    assert len(emulation.orders) == 2


def test_a_schedule_is_emulated() -> None:
    program, arguments = load_program(PROGRAM), arrays()
    p, a100 = problem(program, m=70, n=40, k=32), device("a100")
    schedule = template(program).space(p, a100).sample(1, 3)[0]
    assert autosched.emulate(program, arguments=arguments, device="a100", schedule=schedule).ok
    assert autosched.emulate(program, arguments=arguments, device="a100", schedule=dict(schedule.items)).ok


def test_mismatched_arguments_are_rejected_in_one_line() -> None:
    program, (a, b, bias, out) = load_program(PROGRAM), arrays()
    for arguments, message in (
        ([a, b, bias], "a, b, bias, out, not 3 arguments"),
        ([a, b[:-1], bias, out], "b has k = 31"),
        ([a.astype("f4"), b, bias, out], "elements of 2 bytes"),
        ([a, b, 1.0, out], "bias must be an array, not float"),
    ):
        with pytest.raises(ValueError, match=message):
            autosched.emulate(program, arguments=arguments)
    with pytest.raises(ValueError, match="arrays determine"):
        autosched.emulate(program, arguments=[a, b, bias, out], grid=1)
    with pytest.raises(ValueError, match="grid is missing"):
        autosched.emulate("__global__ void f() {}", arguments=[], block=1)


def test_tune_takes_programs_and_sizes(tmp_path: Path) -> None:
    program, path = load_program(PROGRAM), tmp_path / "best.db"
    options = {"trials": 1, "device": "a100", "database": path, "verify": False, "progress": None}
    result = autosched.tune(program, **options, m=70, n=40, k=32)
    assert result.best is not None
    best = autosched.Database(path).best(program, "a100", Provenance.ESTIMATED, m=70, n=40, k=32)
    assert best is not None and best.schedule == result.best.schedule
    for sizes, message in (({"m": 70, "n": 40}, "k"), ({"m": 70, "n": 40, "k": 32, "q": 1}, "q")):
        with pytest.raises(ValueError, match=message):
            autosched.tune(program, **options, **sizes)
    with pytest.raises(TypeError, match="unexpected keyword argument 'trails'"):
        autosched.tune(Matmul(m=8, n=8, k=8), trails=1)
    with pytest.raises(ValueError, match="expected a problem"):
        autosched.tune("matmul", m=8)  # type: ignore[arg-type]


def test_a_database_takes_programs_and_sizes(tmp_path: Path) -> None:
    program, path = load_program(PROGRAM), tmp_path / "best.db"
    p = problem(program, m=70, n=40, k=32)
    result = autosched.tune(p, trials=2, device="a100", database=path, verify=False, progress=None)
    assert result.best is not None
    database = autosched.Database(path)
    best = database.best(program, "a100", Provenance.ESTIMATED, m=70, n=40, k=32)
    assert best is not None and best.schedule == result.best.schedule
    assert database.best(program, "a100", m=70, n=40, k=64) is None
    assert database.look_up(program, "a100", m=70, n=40, k=32).provenance.schedule == best.schedule
    with pytest.raises(autosched.RuntimeUnavailable):
        database.kernel(program, m=70, n=40, k=32)
    with pytest.raises(ValueError, match="gemm_relu"):
        database.best(program, "a100", m=70)
    with pytest.raises(ValueError, match=r"sizes \(m\)"):
        database.best(Matmul(m=8, n=8, k=8), "a100", m=70)
