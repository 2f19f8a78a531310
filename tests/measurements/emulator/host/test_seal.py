"""The emulator checks its cached files: it recompiles damaged programs, and detects a damaged runner.

A damaged runner does not cause a kernel to be rejected.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from needs import needs_compiler, needs_nvrtc

from measurements.emulator import HostFailure, emulate, emulator, host_compiler
from measurements.emulator.host import build
from measurements.emulator.host.build import RUNTIME_FLAGS, runner
from measurements.emulator.host.parts import RuntimePart
from measurements.emulator.host.seal import intact, seal
from measurements.emulator.ptx.build import compile_to_bytecode
from search_spaces.hardware.dtypes import U32
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.operand import Operand

pytestmark = [needs_nvrtc, needs_compiler]

SOURCE = 'extern "C" __global__ void count(unsigned* out) { out[threadIdx.x] = 3u * threadIdx.x; }\n'


def kernel(source: str = SOURCE) -> GeneratedKernel:
    out = Operand("out", "output", U32, (32,))
    return GeneratedKernel(entry="count", source=source, arguments=(out,), grid=(1, 1, 1), block=(32, 1, 1))


def path_of(kernel: GeneratedKernel) -> Path:
    return compile_to_bytecode(kernel).path


def test_a_seal_is_of_every_byte(tmp_path: Path) -> None:
    path = tmp_path / "object"
    assert not intact(path)
    path.write_bytes(b"content")
    assert not intact(path)
    seal(path)
    assert intact(path)
    content = path.read_bytes()
    for damaged in (content[:-1], content + b"x", b"C" + content[1:], b"", content[: len(content) // 2]):
        path.write_bytes(damaged)
        assert not intact(path)


@pytest.mark.parametrize("damage", ["flipped", "short", "empty"])
def test_a_damaged_program_in_the_cache_heals(damage: str) -> None:
    path = path_of(kernel())
    content = path.read_bytes()
    assert intact(path)
    half = len(content) // 2
    flipped = content[:half] + bytes(255 - b for b in content[half : half + 64]) + content[half + 64 :]
    path.write_bytes({"flipped": flipped, "short": content[:half], "empty": b""}[damage])
    done = emulate(kernel(), {})
    assert done.ok and not done.from_cache
    assert done.outputs["out"].tolist() == [3 * i for i in range(32)]
    assert path.read_bytes() == content


def test_a_damaged_runner_is_detected(tmp_path: Path) -> None:
    path = tmp_path / "runner"
    path.write_bytes(runner().read_bytes())
    assert intact(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    path.write_bytes(content)
    assert not intact(path)


def test_a_crash_rejects_a_kernel_only_if_the_runner_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    true_runner, broken = runner(), tmp_path / "runner"

    def crashes(when: str) -> None:
        broken.write_text(f'#!/bin/sh\n{when} && kill -SEGV $$\nexec "{true_runner}" "$@"\n')
        broken.chmod(0o700)

    monkeypatch.setattr(emulator, "runner", lambda: broken)
    crashes(f'grep -q "{path_of(kernel()).name}" /proc/$$/cmdline')
    done = emulate(kernel(), {})
    assert done.status == "crashed" and [str(f.kind) for f in done.findings] == ["crash"]
    crashes("true")
    with pytest.raises(HostFailure, match="correct kernel"):
        emulate(kernel(), {})
    assert not broken.exists(), "the broken runner must be deleted, so that the next use compiles it"


SMALL = RuntimePart("small", ("machine/report.cpp",))


@pytest.mark.nightly
def test_precompiled_headers_are_used_and_change_no_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path))
    compiler = host_compiler()
    object_path = build._object_path(compiler, SMALL, RUNTIME_FLAGS)
    options = build._standard_headers(compiler, RUNTIME_FLAGS, tmp_path)
    if "clang" in compiler.identity:
        assert options == ()
        return
    objects = []
    for flags in ((), (*options, "-Winvalid-pch", "-Werror")):
        build._compile_part(compiler, SMALL, RUNTIME_FLAGS, tmp_path, flags, object_path)
        assert intact(object_path)
        objects.append(object_path.read_bytes())
    assert options and objects[0] == objects[1]
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine" / "report.cpp").write_text("int changed;\n")
    monkeypatch.setattr(build, "RUNTIME", tmp_path)
    with pytest.raises(HostFailure, match="changed"):
        build._compile_part(compiler, SMALL, RUNTIME_FLAGS, tmp_path, (), object_path)
    (tmp_path / "standard.hpp").write_text("#error none\n")
    assert build._standard_headers(compiler, RUNTIME_FLAGS, tmp_path) == (), (
        "the build continues without precompiled headers"
    )


@pytest.mark.parametrize(
    "name", ["two words", "quo'te\"s", "two\nlines", "not\udcffUTF-8", "$x;`y`\\", "-a=b,c"], ids=ascii
)
def test_odd_names_of_the_cache_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    folder = tmp_path / name / "emulator"
    folder.mkdir(parents=True)
    shutil.copy2(runner(), folder)  # copied, since compiling the runner takes long
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", os.fspath(tmp_path / name))
    wrong = kernel(SOURCE.replace("3u *", "undeclared *"))
    done = emulate(kernel(), {})
    assert done.ok and done.outputs["out"].tolist() == [3 * i for i in range(32)], done.reason
    emulation = emulate(wrong, {})
    assert (
        emulation.status == "compile_error"
        and "undeclared" in emulation.reason
        and str(tmp_path) not in emulation.reason
    )
    assert {path.suffix for path in folder.iterdir() if not path.name.startswith("runner")} == {".program"}
