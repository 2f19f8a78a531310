"""Pictures of a tile program's values."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.cli import main
from autosched.reporting.program_pictures import panels
from search_spaces.programs.language.distribution import blocked

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_panels_say_who_holds_what() -> None:
    tile, lanes = panels(blocked((8, 32), 2, 1, 8, 1, 4), 2, "x")
    assert [(c.row, c.column, c.rows, c.columns, c.text) for c in tile.cells] == [
        (0, 0, 4, 32, "warp 0"),
        (4, 0, 4, 32, "warp 1"),
    ]
    assert lanes.shape == (8, 32) and len(lanes.cells) == 8 * 8
    assert lanes.cells[9].text == "t9\nr0" and (lanes.cells[9].row, lanes.cells[9].column) == (1, 4)


def test_space_draws_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    place, folder = str(EXAMPLES / "seeds" / "nested_layout.py:distributed"), tmp_path / "drawn"
    sizes = ["--size", "m=64", "--size", "n=64", "--device", "a100"]
    assert main(["space", "--program", place, *sizes, "--pictures", str(folder)]) == 0
    drawn = sorted(folder.iterdir())
    assert any("convert" in path.name for path in drawn) and all(b"<svg" in p.read_bytes()[:2000] for p in drawn)
    assert f"drew {len(drawn)} pictures" in " ".join(capsys.readouterr().err.split())
    assert main(["space", "matmul", "-m", "64", "-n", "64", "-k", "64", "--device", "a100", "--pictures", "x"]) == 2
    assert "give --program FILE" in capsys.readouterr().err
