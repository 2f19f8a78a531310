"""Schedule files that also contain compiler controls."""

import json
from pathlib import Path

import pytest

from autosched.cli.options.schedule_file import read
from autosched.cli.terminal.errors import InputError
from search_spaces.spaces.parameters import ordinal
from search_spaces.templates.compiler_controls import MAX_REGISTERS, CompilerControls

DOMAINS = {"toy": (ordinal("x", (1, 2)),)}


def test_controls_follow_the_parameters(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps({MAX_REGISTERS: 64, "x": 2}))
    schedule = read(str(tmp_path / "s.json"), DOMAINS)
    assert schedule.items == (("x", 2), (MAX_REGISTERS, 64))
    assert CompilerControls.of(schedule) == CompilerControls(max_registers=64)


def test_a_control_that_is_out_of_range_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps({MAX_REGISTERS: 4000, "x": 2}))
    with pytest.raises(InputError, match=MAX_REGISTERS):
        read(str(tmp_path / "s.json"), DOMAINS)
