"""What is written down about programs, by their names (programs.toml)."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Table:
    """``arguments`` and ``flags`` (of nvcc); ``left_out``: why a program is not run; ``readings``: whether a finding is
    "true" or "false", by program and kind, or by program, kind and line, and why."""

    arguments: dict[str, list[str]] = field(default_factory=dict)
    flags: dict[str, list[str]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    readings: list[dict[str, Any]] = field(default_factory=list)

    def reading(self, program: str, kind: str, line: int) -> tuple[str, str]:
        for r in self.readings:
            if r["program"] == program and r["kind"] in (kind, "*") and r.get("line", line) == line:
                return r["judged"], r["why"]
        return "not read", ""


def read(file: Path) -> Table:
    return Table(**tomllib.loads(file.read_text()))


TABLE = read(Path(__file__).with_name("programs.toml"))
