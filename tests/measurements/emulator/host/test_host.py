"""Failures of the host machine never reject a kernel."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from measurements.emulator import (
    Emulation,
    HostFailure,
    cache_folder,
    check_host,
    check_ready,
    emulate,
    host_compiler,
)
from measurements.emulator import emulator as emulator_module
from measurements.emulator.host import compiler as host
from measurements.emulator.host.build import runner
from measurements.emulator.host.compiler import FROM_STDIN, compile_to
from search_spaces.hardware.dtypes import F32
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.operand import Operand

Run = Callable[..., Emulation]
Compiler = Callable[[str], Path]

SOURCE = """#include "common.cuh"
extern "C" __global__ void kernel(const float* a, float* o) {
  st_global(o + threadIdx.x, packet(load(a + threadIdx.x)));
}
"""
ARGUMENTS = (Operand("a", "input", F32, (32,)), Operand("o", "output", F32, (32,)))
INPUTS = {"a": np.arange(32, dtype=np.float32)}

# Shell commands that a fake compiler executes instead of compiling. $out is the output file, $REAL the real compiler.
BROKEN = {
    "silent failure": "exit 1",
    "crash": "echo 'g++: internal compiler error: Segmentation fault signal terminated program cc1plus' >&2; exit 4",
    "no output": "exit 0",
    "empty output": ': > "$out"',
    "no temporary files": "echo 'Cannot create temporary file in /gone/: No such file or directory' >&2; kill -ABRT $$",
    "too old": "echo '<stdin>:1:10: fatal error: source_location: No such file or directory' >&2; exit 1",
    "disk full": 'echo "/tmp/c.s: Fatal error: can\'t write: No space left on device" >&2; exit 1',
}


def test_ctrl_c_is_raised_after_the_compiler_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """``communicate`` waits briefly for the process before it raises, so the process has ended."""

    def communicate(self: subprocess.Popen[str], *_: object) -> None:
        self.wait()
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess.Popen, "communicate", communicate)
    with pytest.raises(KeyboardInterrupt):
        host.run_compiler(["true"], 5.0)


def test_ctrl_c_ends_the_compilers_of_a_pool_and_cancels_pending_ones(tmp_path: Path) -> None:
    threads = os.cpu_count() or 1
    with pytest.raises(KeyboardInterrupt), host.compiler_pool(tmp_path) as pool:
        commands = [["sh", "-c", 'touch "$0" && sleep 600', f"{tmp_path}/started {i}"] for i in range(threads + 1)]
        compilations = [pool.submit(host.run_compiler, command, 600.0, scratch=tmp_path) for command in commands]
        while len(list(tmp_path.glob("started *"))) < threads:
            assert not any(c.done() for c in compilations)
            time.sleep(0.01)
        raise KeyboardInterrupt
    assert [c.result().returncode for c in compilations[:threads]] == [-signal.SIGKILL] * threads
    assert compilations[-1].cancelled()


@pytest.fixture
def compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compiler:
    """Return ``compiler(script)``, which puts a fake g++ on the PATH. To compile, this g++ runs the script."""
    real, built = host_compiler(), runner()

    def install(script: str) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        fake = folder / "g++"
        fake.write_text(
            "#!/bin/sh\n"
            f'REAL="{real.path}"\n'
            'case "$1" in --version|-dumpmachine) exec "$REAL" "$1" ;; esac\n'
            'for argument; do test "$last" = -o && out="$argument"; last="$argument"; done\n'
            f"{script}\n"
        )
        fake.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
        monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))
        shutil.copy(built, cache_folder() / built.name)
        return fake

    return install


def one_line(error: BaseException) -> bool:
    return "\n" not in str(error) and len(str(error)) > 20


@pytest.mark.parametrize("script", BROKEN.values(), ids=BROKEN)
def test_a_broken_compiler_is_a_failure_of_this_machine(compiler: Compiler, script: str) -> None:
    compiler(script)
    for needs_it in (check_host, lambda: runner(("-DANOTHER",))):
        with pytest.raises(HostFailure) as error:
            needs_it()
        assert one_line(error.value) and "g++" in str(error.value)


def test_kernels_need_no_compiler_after_the_runner_is_built(run: Run, compiler: Compiler) -> None:
    compiler("exit 1")
    check_ready()
    assert run(SOURCE, ARGUMENTS, INPUTS).ok


def test_without_a_runner_the_compiler_is_checked_first(
    compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler("exit 1")
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "empty"))
    with pytest.raises(HostFailure, match="cannot compile an empty program"):
        check_ready()


@pytest.mark.parametrize(
    "script",
    ["#!/bin/sh\nexit 1\n", "#!/no/such/interpreter\n", "#!/bin/sh\nexit 0\n", "garbage"],
    ids=["fails", "no interpreter", "says nothing", "no program"],
)
def test_a_compiler_without_a_version_is_rejected(compiler: Compiler, script: str) -> None:
    compiler("").write_text(script)
    with pytest.raises(HostFailure) as error:
        host_compiler()
    assert one_line(error.value) and "bin/g++" in str(error.value)


def test_control_characters_of_compiler_output_are_escaped(compiler: Compiler) -> None:
    compiler(r"printf 'fatal error: \033[2J\007bad \000\n' >&2; exit 1")
    with pytest.raises(HostFailure) as error:
        check_host()
    assert r"(fatal error: \x1b[2J\x07bad \x00)" in str(error.value)


def test_a_hanging_compiler_and_its_children_are_killed(
    compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """g++ starts cc1plus, which does the work and must also be killed."""
    compiler(f'sleep 60 & echo $! >"{tmp_path}/part"; mv "{tmp_path}/part" "{tmp_path}/child"; wait')
    monkeypatch.setattr("measurements.emulator.host.build.COMPILE_SECONDS", 1.0)
    with pytest.raises(HostFailure, match="not done within 1 s"):
        runner(("-DANOTHER",))
    process = Path("/proc") / (tmp_path / "child").read_text().strip()
    deadline = time.monotonic() + 30
    while process.exists() and "Z" not in (process / "stat").read_text().split() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not process.exists() or "Z" in (process / "stat").read_text().split()


def test_a_compile_error_of_the_kernel_is_not_a_host_failure(run: Run) -> None:
    emulation = run(SOURCE.replace("packet(", "pocket("), ARGUMENTS, INPUTS)
    assert emulation.status == "compile_error" and "pocket" in emulation.reason


def test_the_compiler_only_needs_the_folder_of_its_output(
    compiler: Compiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler('test "$TMPDIR" = "$(dirname "$out")" || exit 1; exec "$REAL" "$@"')
    monkeypatch.setenv("TMPDIR", "/no/such/folder")
    path = tmp_path / "program"
    assert compile_to(path, host_compiler(), FROM_STDIN, 60.0, "int main() { return 0; }") is None and path.exists()


@pytest.mark.parametrize("mode", ["+x", "-x"])
def test_a_runner_that_does_not_run_is_not_kept(compiler: Compiler, mode: str) -> None:
    compiler(f'echo garbage > "$out"; chmod {mode} "$out"')
    (program,) = cache_folder().glob("runner-*")
    program.unlink()
    with pytest.raises(HostFailure, match="do not run") as error:
        runner()
    assert one_line(error.value)
    assert [path.name for path in cache_folder().iterdir()] == ["runner.lock"]


@pytest.mark.skipif(sys.platform != "linux", reason="sets limits of another process")
@pytest.mark.parametrize("limit", ["-f 0", "-v 100000"], ids=["file size", "memory"])
def test_a_launch_ended_by_a_machine_limit_is_a_host_failure(
    kernel_of: Callable[..., GeneratedKernel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    limited = tmp_path / "limited"
    limited.write_text(f'#!/bin/sh\nulimit {limit}\nexec "{runner()}" "$@"\n')
    limited.chmod(0o755)
    monkeypatch.setattr(emulator_module, "runner", lambda: limited)
    with pytest.raises(HostFailure, match="disk space") as error:
        emulate(kernel_of(SOURCE, ARGUMENTS), INPUTS)
    assert one_line(error.value)


def test_a_killed_launch_is_a_host_failure(
    kernel_of: Callable[..., GeneratedKernel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = tmp_path / "killed"
    killed.write_text("#!/bin/sh\nkill -KILL $$\n")
    killed.chmod(0o755)
    monkeypatch.setattr(emulator_module, "runner", lambda: killed)
    with pytest.raises(HostFailure, match="SIGKILL"):
        emulate(kernel_of(SOURCE, ARGUMENTS), INPUTS)


def test_checking_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(tmp_path / "cache"))
    assert check_host() == host_compiler()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / ("x" * 300)):
        monkeypatch.setenv("AUTOSCHED_CACHE_DIR", str(path))
        with pytest.raises(HostFailure, match="set AUTOSCHED_CACHE_DIR"):
            check_host()
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
