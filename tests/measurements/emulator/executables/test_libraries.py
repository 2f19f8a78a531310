"""The replacements of CUDA's libraries are compiled only once, even if many processes request them."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from needs import needs_compiler

from measurements.emulator import HostFailure
from measurements.emulator.executables import libraries

pytestmark = needs_compiler


def test_concurrent_processes_compile_the_libraries_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []

    def compile_slowly(compiler: object, to: Path, *_: object) -> None:
        compiled.append(to.name)
        time.sleep(0.05)
        to.touch()

    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(libraries, "_compile", compile_slowly)
    monkeypatch.setattr(libraries, "_object", lambda *_: "")
    with ThreadPoolExecutor(3) as threads:
        folders = {job.result() for job in [threads.submit(libraries.library_folder) for _ in range(3)]}
    (folder,) = folders
    names = sorted(path.name for path in folder.iterdir())
    assert sorted(compiled) == names and {*libraries.RUNTIMES, libraries.DRIVER} < set(names)


@pytest.mark.parametrize("broken", [libraries.DRIVER, *libraries.RUNTIMES])
def test_a_library_compile_error_is_reported_and_no_file_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, broken: str
) -> None:
    def refuse(compiler: object, to: Path, sources: Sequence[str], *_: object) -> None:
        if to.name == broken:
            raise HostFailure(f"cannot compile {sources[0]}")
        to.touch()

    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(libraries, "_compile", refuse)
    monkeypatch.setattr(libraries, "_object", lambda *_: "")
    with pytest.raises(HostFailure, match="cannot compile"):
        libraries.library_folder()
    assert not list(tmp_path.rglob("libraries-*/*"))


@pytest.mark.parametrize("soname", libraries.RUNTIMES)
def test_symbols_have_the_version_that_programs_ask_for(soname: str) -> None:
    symbols = ["nm", "-D", "--defined-only", str(libraries.library_folder() / soname)]
    listed = subprocess.run(symbols, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"@@(.+)", listed)) == {soname}


def test_a_compiler_of_cuda_needs_no_gpu_and_a_library_of_kernels_does() -> None:
    needed = ("libnvrtc.so.13", "libcublas.so.13", "libcudart.so.13", "libcurand.so.10")
    assert libraries.foreign_libraries(needed) == ("libcublas.so.13", "libcurand.so.10")


def test_a_file_that_names_no_libraries_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def searched(*_: object) -> bool:
        raise AssertionError

    monkeypatch.setattr(libraries, "has_text", searched)
    with (tmp_path / "elf").open("wb") as file:
        file.write(b"\x7fELF\x02\x01\x01")
        file.truncate(10 << 30)  # a sparse file, which uses no disk space
    assert not libraries.opens_driver(tmp_path / "elf")


def test_a_text_is_found_up_to_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "program"
    program.write_bytes(b"." * 8191 + b"name")
    assert libraries.has_text(program, b"name") and not libraries.has_text(program, b"other")
    monkeypatch.setattr(libraries, "_MOST_SEARCHED", 8192)
    assert not libraries.has_text(program, b"name")
