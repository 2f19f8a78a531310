"""The judge judges itself: damaged objects are compiled again, and a broken runner condemns no kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

from measurements.emulator import HostFailure, emulate, emulator
from measurements.emulator.build import compile_kernel, runner
from measurements.emulator.seal import intact, seal
from search_spaces.hardware.dtypes import U32
from search_spaces.operators.problem import Operand
from search_spaces.templates.kernel import Kernel

SOURCE = 'extern "C" __global__ void count(unsigned* out) { out[threadIdx.x] = 3u * threadIdx.x; }\n'
CRASHES = 'extern "C" __global__ void count(unsigned* out) { *(volatile unsigned*)8 = out[0]; }\n'


def kernel(source: str = SOURCE) -> Kernel:
    out = Operand("out", "output", U32, (32,))
    return Kernel(entry="count", source=source, arguments=(out,), grid=(1, 1, 1), block=(32, 1, 1))


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
def test_a_damaged_kernel_in_the_cache_heals(damage: str) -> None:
    path = compile_kernel(kernel()).path
    content = path.read_bytes()
    half = len(content) // 2
    flipped = content[:half] + bytes(255 - b for b in content[half : half + 64]) + content[half + 64 :]
    path.write_bytes({"flipped": flipped, "short": content[:half], "empty": b""}[damage])
    done = emulate(kernel(), {}, engine="host")
    assert done.ok and not done.from_cache
    assert done.outputs["out"].tolist() == [3 * i for i in range(32)]
    assert path.read_bytes() == content


def test_a_damaged_runner_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "runner"
    path.write_bytes(runner().read_bytes())
    assert intact(path)
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 0xFF
    path.write_bytes(content)
    assert not intact(path)


def test_a_crash_condemns_a_kernel_only_where_the_runner_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert emulate(kernel(CRASHES), {}, engine="host").status == "crashed"
    broken = tmp_path / "runner"
    broken.write_text("#!/bin/sh\nkill -SEGV $$\n")
    broken.chmod(0o700)
    monkeypatch.setattr(emulator, "runner", lambda: broken)
    with pytest.raises(HostFailure, match="fails for a kernel that is right"):
        emulate(kernel(), {}, engine="host")
    assert not broken.exists(), "it is compiled again next time"
