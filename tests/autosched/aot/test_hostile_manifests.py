"""Loading an invalid folder of kernels raises a ValueError or OSError at once, and reads no file outside the folder."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from autosched.aot.runtime import autosched_loader

ENTRY: dict[str, Any] = {
    "operator": "scale",
    "problem": "scale n=64",
    "sizes": {"n": {"value": 64, "default": 64, "free": True, "padded": False}},
    "texts": {},
    "device": {"name": "h100", "driver_name": "NVIDIA H100", "arch": "sm_90a"},
    "entry": "scale",
    "cubin": "scale.cubin",
    "ptx": None,
    "launch": {"grid": ["n", "1", "1"], "block": ["32", "1", "1"], "cluster": ["1"] * 3, "dynamic_shared_bytes": "0"},
    "guards": [],
    "operands": [{"name": "y", "role": "output", "dtype": "f32", "shape": ["n"], "zeroed": False}],
    "arguments": [{"kind": "array", "operand": "y"}],
    "verification": None,
    "provenance": {},
    "seconds": 1e-6,
}


def selected(folder: Path, **changes: Any) -> autosched_loader.ShippedKernel:
    (folder / "manifest.json").write_text(json.dumps({"format": 1, "kernels": [{**ENTRY, **changes}]}))
    return autosched_loader.load(folder).select_for("scale n=64", 90)


def with_grid(grid: Any) -> dict[str, Any]:
    return {"launch": {**ENTRY["launch"], "grid": grid}}


def test_a_sound_folder_is_read(tmp_path: Path) -> None:
    assert selected(tmp_path).grid == (64, 1, 1)


@pytest.mark.parametrize(
    "changes",
    [
        with_grid(["9**9**9**9", "1", "1"]),
        with_grid(["n" + "+n" * 9000, "1", "1"]),
        with_grid([["n"], "1", "1"]),
        with_grid("n"),
        with_grid(7),
        with_grid(["2**40", "1", "1"]),  # grid sizes have at most 32 bits
        with_grid(["-1", "1", "1"]),
        {"sizes": {"n": {"value": 32, "default": 32}}},
        {"sizes": []},
        {"device": None},
        {"launch": None},
    ],
    ids=range(11),
)
def test_a_damaged_entry_is_a_value_error(tmp_path: Path, changes: dict[str, Any]) -> None:
    with pytest.raises((ValueError, LookupError)) as error:
        selected(tmp_path, **changes)
    assert not isinstance(error.value, (KeyError, IndexError))
    assert "\n" not in str(error.value) and len(str(error.value)) < 400


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "7",
        "null",
        '{"format": 2}',
        '{"format": 1}',
        '{"format": 1, "kernels": [7]}',
        "[" * 100_000,
        "{",
        "\xff",
        "",
    ],
    ids=range(10),
)
def test_a_damaged_manifest_is_a_value_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "manifest.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(ValueError):
        autosched_loader.load(tmp_path)


def test_irregular_files_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").symlink_to("/dev/zero")
    with pytest.raises(ValueError, match="regular file"):
        autosched_loader.load(tmp_path)
    (tmp_path / "manifest.json").unlink()
    os.mkfifo(tmp_path / "manifest.json")
    with pytest.raises(ValueError, match="regular file"):
        autosched_loader.load(tmp_path)


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "cubins/../../x", "", ".", 7, None])
def test_no_file_outside_the_folder_is_read(tmp_path: Path, name: Any) -> None:
    with pytest.raises((ValueError, OSError)):
        autosched_loader._content(tmp_path, name)
