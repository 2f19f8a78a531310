"""A wheel's prebuilt runner needs no C++ compiler. It is used only if built from the installed sources."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from needs import needs_compiler

from measurements.emulator import Emulation, HostCompilerMissing, check_ready
from measurements.emulator.host import build, prebuilt
from measurements.emulator.host.build import brings_runner, runner, sources_digest
from measurements.emulator.host.prebuilt import prebuilt_name
from search_spaces.hardware.dtypes import F32
from search_spaces.launches.operand import Operand

pytestmark = needs_compiler

SOURCE = 'extern "C" __global__ void kernel(const float* a, float* o) { o[threadIdx.x] = 2 * a[threadIdx.x]; }'
OPERANDS = (Operand("a", "input", F32, (32,)), Operand("o", "output", F32, (32,)))


@pytest.fixture
def brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a prebuilt runner, hide all compilers, and use an empty cache."""
    compiled = runner()
    folder = tmp_path / "prebuilt"
    folder.mkdir()
    file = folder / prebuilt_name(sources_digest())
    shutil.copyfile(compiled, file)
    monkeypatch.setattr(prebuilt, "FOLDER", folder)
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    return file


def test_launches_need_no_compiler(brought: Path, run: Callable[..., Emulation]) -> None:
    check_ready()
    done = run(SOURCE, OPERANDS, {"a": np.arange(32, dtype=np.float32)})
    assert done.ok, done.reason
    assert done.outputs["o"].tolist() == [2.0 * i for i in range(32)]
    assert runner().read_bytes() == brought.read_bytes() and runner().stat().st_mode & 0o111


def test_concurrent_threads_share_one_runner(brought: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(lambda _: runner(), range(16)))) == 1


@pytest.mark.parametrize("how", ["of other sources", "damaged", "cut short", "for another processor"])
def test_a_mismatched_prebuilt_runner_is_not_used(how: str, brought: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = brought.read_bytes()
    if how == "of other sources":
        brought.rename(brought.with_name(prebuilt_name("0" * 64)))
    elif how == "for another processor":
        monkeypatch.setattr("platform.machine", lambda: "riscv64")
    else:
        brought.write_bytes(content[:1000] + b"?" + content[1001:] if how == "damaged" else content[:-1])
    assert not brings_runner()
    with pytest.raises(HostCompilerMissing):
        check_ready()
    with pytest.raises(HostCompilerMissing):
        runner()


def test_a_prebuilt_runner_that_does_not_run_is_recompiled(brought: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_complaint", lambda _: "Exec format error")
    with pytest.raises(HostCompilerMissing):
        runner()
    assert not list(build.cache_folder().glob("runner-*"))
