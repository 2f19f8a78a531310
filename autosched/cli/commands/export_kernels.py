"""``autosched export --cubin FOLDER``: export kernels that programs can launch without autosched."""

from __future__ import annotations

from autosched.cli.terminal.errors import InputError, bad_input
from autosched.cli.terminal.output import answer, print_json, say
from autosched.reporting import formatting
from autosched.reporting.exit_status import ExitStatus
from measurements.files.text import without_password


def export_kernels(
    db: str,
    folder: str,
    operator: str | None,
    device: str | None,
    ptx: bool,
    calls: str,
    json: bool,
) -> int:
    """Write the folder of kernels and print a table of them. Return exit status 1 if nothing can be exported."""
    from autosched.aot import collect, write
    from autosched.dispatch.call_log import CallLogError
    from autosched.suites.logged_calls import read_calls
    from measurements.compiler.nvrtc import NvrtcMissing
    from measurements.store.store import Store
    from search_spaces.hardware.devices import device as device_row

    if calls and (device is None or operator is not None):
        raise InputError(
            "--from exports all problems of the logged calls for one device: give --device, and omit --operator"
        )
    with bad_input():
        name = None if device is None else device_row(device).name
        problems = [member.problem for member in read_calls(calls).members] if calls else []
        try:
            store = Store.open(db, create=False)
            kernels = collect(store, operator=operator, device=name, problems=problems, with_ptx=ptx, skipped=_skipped)
        except (NvrtcMissing, CallLogError) as error:
            raise InputError(str(error)) from error
    if not kernels:
        say(f"{without_password(db)} has no matching kernel that can be exported")
        return ExitStatus.NO
    try:
        files = write(kernels, folder)
    except OSError as error:
        raise InputError(f"{folder} cannot be written: {error.strerror}") from error
    if json:
        exported = [{"problem": k.text, "device": k.device.name, "cubin": k.digest} for k in kernels]
        print_json({"folder": folder, "kernels": exported, "files": [str(path) for path in files]})
        return 0
    for k in kernels:
        origin = "chosen by the time model" if k.provenance.origin is None else k.provenance.origin.time
        verification = "verified" if k.verification is not None else "not verified"
        answer(f"{k.text} on {k.device.name}: {k.provenance.schedule.template}, {origin}, {verification}")
    answer(f"{formatting.plural(len(kernels), 'kernel')} in {folder}: see manifest.json and autosched_launch.hpp")
    return 0


def _skipped(why: str) -> None:
    say(f"not exported: {why}")
