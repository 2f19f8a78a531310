"""Pictures of a tile program's values."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

from autosched.cli import main
from autosched.reporting.tile_program_pictures import panels
from search_spaces.programs.language.layout_distributions import blocked
from search_spaces.spaces.space import Space

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_panels_show_the_elements_of_warps_and_threads() -> None:
    tile, lanes = panels(blocked((8, 32), 2, 1, 8, 1, 4), 2, "x")
    assert [(c.row, c.column, c.rows, c.columns, c.text) for c in tile.cells] == [
        (0, 0, 4, 32, "warp 0"),
        (4, 0, 4, 32, "warp 1"),
    ]
    assert [label for _, label in tile.legend] == ["warp 0", "warp 1"]
    assert lanes.shape == (8, 32) and len(lanes.cells) == 8 * 8
    assert lanes.cells[9].text == "t9\nr0" and (lanes.cells[9].row, lanes.cells[9].column) == (1, 4)


def test_space_draws_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    program_path, folder = str(EXAMPLES / "seeds" / "nested_layout.py:distributed"), tmp_path / "drawn"
    sizes = ["--size", "m=64", "--size", "n=64", "--device", "a100"]
    assert main(["space", "--program", program_path, *sizes, "--pictures", str(folder)]) == 0
    pictures = sorted(folder.iterdir())
    assert any("convert" in path.name for path in pictures) and all(b"<svg" in p.read_bytes()[:2000] for p in pictures)
    assert f"drew {len(pictures)} pictures" in " ".join(capsys.readouterr().err.split())
    assert main(["space", "--program", program_path, *sizes, "--sample", "1", "--json"]) == 0
    (sample,) = json.loads(capsys.readouterr().out)["samples"]
    (tmp_path / "schedule.json").write_text(json.dumps(sample))
    explained = ["--explain", str(tmp_path / "schedule.json"), "--pictures", str(tmp_path / "explained")]
    assert main(["space", "--program", program_path, *sizes, *explained]) == 0
    assert any((tmp_path / "explained").iterdir())


def test_pictures_are_rejected_before_the_space_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    path, sizes = str(EXAMPLES / "seeds" / "nested_layout.py:distributed"), ["--size", "m=64", "--size", "n=64"]
    monkeypatch.setattr(Space, "count", None)
    assert main(["space", "matmul", "-m", "64", "-n", "64", "-k", "64", "--device", "a100", "--pictures", "x"]) == 2
    (tmp_path / "file").write_text("")
    for unusable in (tmp_path / "file", tmp_path / "file" / "folder"):
        assert main(["space", "--program", path, *sizes, "--pictures", str(unusable)]) == 2
    assert "give --program FILE" in capsys.readouterr().err
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["space", "--program", path, *sizes, "--pictures", str(tmp_path / "folder")]) == 2
    assert "autosched[pictures]" in capsys.readouterr().err
