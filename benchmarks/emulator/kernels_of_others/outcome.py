"""How one kernel of a repository ended."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Outcome:
    """``verdict``: "right" or "wrong" by the program's own check or by torch, "time limit", "died", "unsupported", "no
    launch", "not built". ``findings`` as `autosched run --report` has them; ``triton``: its version."""

    repository: str
    source: str
    kernel: str
    verdict: str
    why: str = ""
    launches: int = 0
    seconds: float = 0.0
    triton: str = ""
    findings: list[dict[str, Any]] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, ...]:
        return self.repository, self.source, self.kernel

    @property
    def order(self) -> tuple[object, ...]:
        numbers = [int(n) for n in re.findall(r"\d+", self.kernel)]
        return self.repository, self.source, numbers, self.kernel

    @property
    def faults(self) -> list[dict[str, Any]]:
        return [
            f for f in self.findings if f.get("grade", "fault") == "fault" and f["kind"] not in ("timeout", "crash")
        ]
