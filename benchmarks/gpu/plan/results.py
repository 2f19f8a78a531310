"""Results of a plan's parts. Each result is a JSON line, written before the next measurement starts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


class Results:
    """An append-only file of results. A line that was truncated when the process was killed is ignored."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "results.jsonl"
        self.rows: list[dict[str, Any]] = []
        content = self.path.read_bytes() if self.path.exists() else b""
        complete_lines = content[: content.rfind(b"\n") + 1]
        if complete_lines != content:
            self.path.write_bytes(complete_lines)
        self.rows = [json.loads(line) for line in complete_lines.splitlines()]

    def add(self, part: str, key: str, **fields: Any) -> None:
        """Append the result of ``key`` in ``part``."""
        row = {"part": part, "key": key, **fields}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
        self.rows.append(row)

    def has(self, part: str, key: str) -> bool:
        """Return True if a part has a final result of ``key``."""
        return any(row["part"] == part and row["key"] == key and not row.get("cut") for row in self.rows)

    def of(self, part: str) -> dict[str, dict[str, Any]]:
        """Return the newest result of each key of a part."""
        return {row["key"]: row for row in self.rows if row["part"] == part}
