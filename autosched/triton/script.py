"""Run a Python script, emulate all its Triton launches, and report the results."""

from __future__ import annotations

import runpy
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from autosched.triton.described import LaunchFailed
from autosched.triton.fidelity import Fidelity, fidelity_of
from autosched.triton.session import Session, VerifiedLaunch, emulated
from autosched.verify.launch_plan import LaunchPlan
from search_spaces.hardware.devices import Device

_RAISED = "the script raised"


@dataclass(frozen=True, eq=False)
class ScriptReport:
    """Result of a script. ``failure`` is the reason in one line why the script failed; empty if it succeeded."""

    session: Session
    failure: str
    trace: str = ""

    @property
    def ok(self) -> bool:
        """True if the script succeeded, launched at least one kernel, and all launches are correct."""
        return self.session.ok and not self.failure and bool(self.session.launches)

    @property
    def fidelity(self) -> Fidelity:
        """Fidelity of the session's launches."""
        return fidelity_of(self.session)

    def document(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "device": self.session.device.name,
            "ok": self.ok,
            "failure": self.failure,
            "launches": [_launch_document(launch) for launch in self.session.launches],
            "host_findings": [asdict(f) for f in self.session.host_findings],
            "notes": self.session.notes,
            "fidelity": asdict(self.fidelity),
        }


class _TimeIsUp(BaseException):
    """The time limit is reached. Not derived from Exception, because the script may catch Exception."""


def run_script(
    path: Path,
    arguments: Sequence[str],
    device: Device,
    plan: LaunchPlan,
    *,
    quiet: bool = False,
    seconds: float | None = None,
    function: str = "",
    sizes: Mapping[str, tuple[int, int]] | None = None,
    undefined_memory: bool = True,
    first_configuration: bool = False,
    call: Callable[[Callable[..., Any], Session], None] | None = None,
) -> ScriptReport:
    """Run a file as ``python FILE ARGUMENTS`` would, with every Triton launch emulated. Call it from the main thread.

    Args:
        path: The script.
        arguments: Its ``sys.argv[1:]``.
        device: GPU that kernels are compiled for, and that torch detects.
        plan: Runs of each launch.
        quiet: If True, the script's output goes to stderr.
        seconds: Time limit in seconds; None for no limit. When it is reached, the result covers the launches so far.
        function: If not "", import the file and call this function with stress sizes (``Session.at_sizes``) instead of
            running the file.
        sizes: Minimum and maximum of each size, by parameter name.
        undefined_memory: As in ``emulated``.
        first_configuration: As in ``emulated``.
        call: How to call ``function``. Default: with stress sizes.

    Returns:
        The launches, the findings, and the exception that the script raised, if any.

    Raises:
        UnknownDevice: The device is not in the device table.
        HostFailure: This machine cannot run the emulator.
        OSError: The file cannot be read.
        ValueError: ``seconds`` is not positive.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    if seconds is not None and not seconds > 0:
        raise ValueError(f"the time limit of a script must be more than 0 s, got {seconds}")
    before, folder = sys.argv, str(path.resolve().parent)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, folder)
    failure = trace = ""
    try:
        with (
            redirect_stdout(sys.stderr) if quiet else nullcontext(),
            emulated(
                device,
                plan=plan,
                undefined_memory=undefined_memory,
                first_configuration=first_configuration,
                check=False,
            ) as session,
            _limited(seconds),
        ):
            failure, trace = _failure_of(lambda: _run(path, function, sizes or {}, session, call))
    except _TimeIsUp as end:
        failure = f"the script was stopped after {seconds} s{end}"
    finally:
        sys.argv = before
        sys.path.remove(folder)
    if failure.startswith(_RAISED) and any(launch.left_out for launch in session.launches):
        failure += "; it may need the results of blocks that did not run (--blocks)"
    return ScriptReport(session, failure, trace)


def _run(
    path: Path,
    function: str,
    sizes: Mapping[str, tuple[int, int]],
    session: Session,
    call: Callable[[Callable[..., Any], Session], None] | None,
) -> None:
    if not function:
        runpy.run_path(str(path), run_name="__main__")
        return
    named = runpy.run_path(str(path), run_name=path.stem)
    if not callable(named.get(function)):
        raise AttributeError(f"{path} has no function {function}")
    if call is not None:
        call(named[function], session)
    else:
        session.at_sizes(named[function], **sizes)


@contextmanager
def _limited(seconds: float | None) -> Iterator[None]:
    """Within the context, raise _TimeIsUp after a time limit in seconds."""
    if seconds is None:
        yield
        return

    def end(_signal: int, frame: FrameType | None) -> None:
        raise _TimeIsUp(_doing(frame))

    before = signal.signal(signal.SIGALRM, end)
    # Repeat the signal, because exceptions in a destructor or a library's callback are dropped.
    signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _doing(frame: FrameType | None) -> str:
    """Describe the library call in progress; "" if the script's own code was running."""
    while frame is not None:
        code, module = frame.f_code.co_name, frame.f_globals.get("__name__", "")
        if (module, code) == ("triton.compiler.compiler", "compile"):
            return f", while Triton compiled {getattr(frame.f_locals.get('src'), 'name', 'a kernel')}"
        if (module, code) == (Session.__module__, Session.launch.__name__):
            return f", while {frame.f_locals['launch'].name} was emulated"
        frame = frame.f_back
    return ""


def _failure_of(run: Callable[[], Any]) -> tuple[str, str]:
    from measurements.emulator import HostFailure

    try:
        run()
    except SystemExit as stop:
        return ("" if stop.code in (None, 0) else f"the script ended with status {stop.code}"), ""
    except (HostFailure, KeyboardInterrupt):
        raise
    except LaunchFailed as error:
        return str(error), ""
    except Exception as error:
        return f"{_RAISED} {type(error).__name__}: {' '.join(str(error).split())}", traceback.format_exc()
    return "", ""


def _launch_document(launch: VerifiedLaunch) -> dict[str, Any]:
    return {
        "kernel": launch.kernel,
        "called_at": launch.called_at,
        "grid": list(launch.grid),
        "blocks": launch.blocks,
        "left_out": launch.left_out,
        "size": launch.size,
        "threads": launch.threads,
        "constants": {name: repr(value) for name, value in launch.constants},
        "runs": [{"name": name, "status": run.status, "reason": run.reason} for name, run in launch.runs],
        "differing": list(launch.differing),
        "findings": [asdict(f) for f in launch.findings],
        "shared_sites": [s._asdict() for s in launch.emulation.shared_sites],
        "global_sites": [s._asdict() for s in launch.emulation.global_sites],
    }
