"""The cache of programs stays below its size limit. The least recently used entries are deleted first."""

from __future__ import annotations

import os
import time
from itertools import count
from pathlib import Path

import pytest

from measurements.emulator.host import build


def write(folder: Path, name: str, age: float, size: int = 100) -> Path:
    path = folder / name
    path.write_bytes(bytes(size))
    at = time.time() - age
    os.utime(path, (at, at))
    return path


def test_least_recently_used_files_are_deleted_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "CACHE_BYTES", 250)
    old = [write(tmp_path, f"{name}", age) for name, age in (("a.program", 9e4), ("b.o", 8e4), ("runner-c", 7e4))]
    remaining = [write(tmp_path, "d.program", 6e4), write(tmp_path, "e.program", 5e4), write(tmp_path, "other", 1e5)]
    build.prune(tmp_path)
    assert [path.exists() for path in (*old, *remaining)] == [False, False, False, True, True, True]


def test_recently_used_files_are_not_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "CACHE_BYTES", 50)
    old, new = write(tmp_path, "a.program", 9e4), write(tmp_path, "b.program", 10.0)
    build.prune(tmp_path)
    assert (old.exists(), new.exists()) == (False, True)


def test_a_process_looks_at_the_folder_for_its_first_program_and_then_seldom(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[Path] = []
    monkeypatch.setattr(build, "prune", looks.append)
    monkeypatch.setattr(build, "_added", count())
    for _ in range(build.PRUNE_EVERY + 1):
        build.prune_sometimes(tmp_path)
    assert looks == [tmp_path, tmp_path]
