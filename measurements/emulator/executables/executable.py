"""Run an executable with emulated launches."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from measurements.emulator.emulator import machine_failures
from measurements.emulator.executables.executable_launch import LaunchState
from measurements.emulator.executables.launch_description import ARENA_BASE, ARENA_BYTES, HEAP_BYTES
from measurements.emulator.executables.libraries import (
    DRIVER,
    RUNTIMES,
    foreign_libraries,
    has_text,
    library_folder,
    missing_functions,
    needed_libraries,
    opens_driver,
)
from measurements.emulator.executables.reported import ReportedFindings
from measurements.emulator.executables.result import (
    ExecutableOptions,
    ExecutableRefused,
    ExecutableResult,
    LaunchFinding,
)
from measurements.emulator.executables.session import ExecutableSession, LaunchVerifier
from measurements.emulator.host.build import runner
from measurements.files.bounded import open_readable
from measurements.files.work_folders import temporary_folder

_LAUNCH_WITH_ATTRIBUTES = b"LaunchKernelEx"


def run_executable(
    command: Sequence[str],
    options: ExecutableOptions,
    verify: LaunchVerifier,
    on_finding: Callable[[LaunchFinding | str], None],
) -> ExecutableResult:
    """Run an executable with emulated launches.

    Args:
        command: The program and its arguments.
        options: Device, and options of all launches.
        verify: Called with each launch. It must run the launch at least once. The program continues with the memory
            that the last run leaves.
        on_finding: Called with each finding as soon as it is found (once per kernel, kind and line). Also called with a
            sentence about each function that is not emulated.

    Returns:
        The program's exit status, and all findings.

    Raises:
        ExecutableRefused: The file is not an executable linked with the shared runtime.
        HostFailure: This machine cannot compile or run the emulator.
    """
    program = _executable_file(command[0])
    needed = needed_libraries(program)
    replaced = [n for n in needed if n in RUNTIMES or n == DRIVER]
    if not replaced and (options.driver or opens_driver(program)):
        replaced = [DRIVER]
    if not replaced:
        raise ExecutableRefused(
            f"{command[0]} is not linked with the shared CUDA runtime: compile it with nvcc -cudart shared -lineinfo"
        )
    if foreign := foreign_libraries(needed):
        raise ExecutableRefused(f"{command[0]} needs {', '.join(foreign)}, which cannot be replaced without a GPU")
    started = time.monotonic()
    result = ExecutableResult()
    with machine_failures(), temporary_folder() as work:
        folder = library_folder()
        runner()  # compiles the runner before the program starts
        missing, _ = missing_functions(program, folder, work)
        arena = os.memfd_create("autosched-device-memory")
        ours, theirs = socket.socketpair()
        try:
            os.ftruncate(arena, ARENA_BYTES)
            preload = [str(folder / n) for n in replaced] + ([str(missing)] if missing else [])
            environment = dict(os.environ)
            environment["LD_LIBRARY_PATH"] = ":".join(filter(None, (str(folder), environment.get("LD_LIBRARY_PATH"))))
            environment["LD_PRELOAD"] = ":".join([*preload, *filter(None, [environment.get("LD_PRELOAD")])])
            environment["AUTOSCHED_PROGRAM"] = f"{theirs.fileno()} {arena} {ARENA_BASE} {ARENA_BYTES} {HEAP_BYTES}"
            process = subprocess.Popen([str(program), *command[1:]], env=environment, pass_fds=(theirs.fileno(), arena))
            theirs.close()
            try:
                may_overlap = options.device.has("programmatic_launch") and has_text(program, _LAUNCH_WITH_ATTRIBUTES)
                state = LaunchState(work, f"/proc/{os.getpid()}/fd/{arena}", may_overlap)
                report = ReportedFindings(result, on_finding, options.suppressions)
                session = ExecutableSession(options, program, state, report, verify)
                session.serve(ours)
                result.status = process.wait()
                session.end(result.status)
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()
        finally:
            ours.close()
            theirs.close()
            os.close(arena)
    result.seconds = time.monotonic() - started
    return result


def _executable_file(name: str) -> Path:
    """Return the path of an executable. Raises ExecutableRefused."""
    path = Path(name)
    if "/" not in name and not path.exists():
        on_path = shutil.which(name)
        path = Path(on_path) if on_path else path
    try:
        with open_readable(path, regular=True) as file:
            head = file.read(4)
    except OSError as error:
        raise ExecutableRefused(f"{name} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ExecutableRefused(f"{name} cannot be run: {error}") from None
    if head != b"\x7fELF":
        raise ExecutableRefused(
            f"{name} is not an executable (ELF file) for this machine; for a source file use 'autosched verify'"
        )
    # Symbolic links are not resolved, because Python finds its virtual environment by the path of its executable.
    return path.absolute()
