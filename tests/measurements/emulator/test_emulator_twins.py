"""The host twins and the device's ptx/ layer offer the same functions."""

from __future__ import annotations

import re
from pathlib import Path

from measurements.emulator.build import INCLUDE
from measurements.emulator.twins import ADA, HOPPER

DEVICE = Path(__file__).parents[3] / "autosched" / "include" / "autosched" / "ptx"
HOST = INCLUDE / "autosched" / "ptx"


def functions(path: Path) -> set[tuple[str, str]]:
    """(name, parameters) of a header's functions, without the source site; of those that a macro makes, the name."""
    text = re.sub(r"//.*", "", path.read_text()).replace("\\\n", " ")
    text = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
    found = {(name, "") for name in re.findall(r"^AUTOSCHED_\w+\((\w+),", text, flags=re.MULTILINE)}
    for name, parameters in re.findall(r"inline(?:__)?\s+[\w<> ]+?\s(\w+)\(([^{;]*?)\)\s*\{", text):
        own = [" ".join(p.split()) for p in parameters.split(",") if not p.strip().startswith("Site ")]
        found.add((name, ", ".join(own)))
    return found


def test_every_header_has_a_twin_unless_it_is_for_sm_89_or_sm_90() -> None:
    device, host = {p.name for p in DEVICE.glob("*.cuh")}, {p.name for p in HOST.glob("*.cuh")}
    assert host <= device
    for name in device - host:  # kernels that include it are executed as PTX
        text = (DEVICE / name).read_text()
        assert HOPPER.search(text) or ADA.search(text), name


def test_every_function_has_a_twin_with_the_same_parameters() -> None:
    seen = 0
    for path in sorted(DEVICE / p.name for p in HOST.glob("*.cuh")):
        device, host = functions(path), functions(HOST / path.name)
        assert device == host, path.name
        seen += len(device)
    assert seen >= 45
