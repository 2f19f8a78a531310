"""A user can supply the reference of a tile program."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.cli import main

PROGRAM = """
from search_spaces.programs.builder import Input, Output, program
@program(x=Input("m n", "f32"), out=Output("m n", "f32"))
def doubled(p, x, out):
    i, j = p.blocks(x.shape, (8, 32))
    p.store(p.load(p.window(x, (i, j), (8, 32))) * 2.0, p.window(out, (i, j), (8, 32)))
"""


@pytest.mark.parametrize(
    ("reference", "status", "message"),
    [
        ("def f(x): return 2.0 * x", 0, ""),
        ("def f(x, m, n): return {'out': x + x[:m, :n]}", 0, ""),
        ("def f(x): return 2.5 * x", 1, "should be"),
        ("def f(x): return x[0]", 2, "shape"),
        ("def f(y): return y", 2, "y"),
        ("def g(x): return x", 2, "f"),
    ],
)
def test_results_are_compared_with_the_reference(
    reference: str, status: int, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "doubled.py").write_text(PROGRAM)
    (tmp_path / "reference.py").write_text(reference)
    sizes = ["--size", "m=9", "--size", "n=40", "--device", "a100", "--sample", "1"]
    options = ["--program", str(tmp_path / "doubled.py"), "--reference", f"{tmp_path / 'reference.py'}:f"]
    assert main(["verify", *options, *sizes]) == status
    captured = capsys.readouterr()
    assert message in captured.out + captured.err and "Traceback" not in captured.err


def test_a_reference_gets_scalars_and_the_columns_of_strided_inputs(tmp_path: Path) -> None:
    program = (
        PROGRAM.replace("import Input, Output", "import Input, Output, Scalar")
        .replace('"m n", "f32"), out', '"m n", "f32", strided=True), by=Scalar("f32", 2.0, low=1.0, high=3.0), out')
        .replace("(p, x, out)", "(p, x, by, out)")
        .replace("* 2.0", "* by")
    )
    (tmp_path / "doubled.py").write_text(program)
    (tmp_path / "reference.py").write_text("def f(x, by, n): assert x.shape[1] == n; return by * x")
    sizes = ["--size", "m=9", "--size", "n=40", "--size", "x_stride=44", "--device", "a100", "--sample", "1"]
    options = ["--program", str(tmp_path / "doubled.py"), "--reference", f"{tmp_path / 'reference.py'}:f"]
    assert main(["verify", *options, *sizes]) == 0


def test_a_reference_file_without_a_function_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "doubled.py").write_text(PROGRAM)
    options = ["--program", str(tmp_path / "doubled.py"), "--size", "m=9", "--size", "n=40"]
    assert main(["verify", *options, "--reference", "nowhere.py"]) == 2
    assert "FILE.py:FUNCTION" in capsys.readouterr().err
