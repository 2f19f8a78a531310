"""Users' Python files are imported as modules."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from measurements.files.python_file import NotLoaded, load_module


def test_a_file_that_removes_itself_fails_by_its_own_error(tmp_path: Path) -> None:
    file = tmp_path / "x.py"
    file.write_text("import sys\ndel sys.modules[__name__]\n1 / 0\n")
    with pytest.raises(NotLoaded, match="ZeroDivisionError"):
        load_module(file, "removes_itself")
    assert "removes_itself" not in sys.modules
