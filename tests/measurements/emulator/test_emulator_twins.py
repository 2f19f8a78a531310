"""The host twins and the device's ptx/ layer offer the same functions."""

from __future__ import annotations

import re
from pathlib import Path

from measurements.emulator.build import INCLUDE

DEVICE = Path(__file__).parents[3] / "autosched" / "include" / "autosched" / "ptx"
HOST = INCLUDE / "autosched" / "ptx"


def declarations(path: Path) -> dict[str, int]:
    """Parameters of each function of a header, by name; functions made by a macro count as named in its calls."""
    text = re.sub(r"//.*", "", path.read_text())
    text = re.sub(r"\\\n", " ", text)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
    found = {}
    for match in re.finditer(
        r"inline__?\s+[\w<> ]+?\s(\w+)\(([^{;]*?)\)\s*\{|inline\s+[\w<> ]+?\s(\w+)\(([^{;]*?)\)\s*\{", text
    ):
        name, parameters = (match[1], match[2]) if match[1] else (match[3], match[4])
        own = [p for p in parameters.split(",") if p.strip() and not p.strip().startswith("Site ")]
        found[f"{name}/{len(own)}"] = len(own)
    for match in re.finditer(r"^AUTOSCHED_\w+\((\w+),", text, flags=re.MULTILINE):
        found[match[1]] = -1
    return found


def test_every_header_has_a_twin() -> None:
    assert sorted(p.name for p in HOST.glob("*.cuh")) == sorted(p.name for p in DEVICE.glob("*.cuh"))


def test_every_function_has_a_twin_with_the_same_parameters() -> None:
    seen = 0
    for path in sorted(DEVICE.glob("*.cuh")):
        device, host = declarations(path), declarations(HOST / path.name)
        assert device == host, path.name
        seen += len(device)
    assert seen >= 45
