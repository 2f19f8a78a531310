"""Worker process that runs a submission, without network access if the system allows that."""

from __future__ import annotations

import ctypes
import os
import sys

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000


def leave_network() -> str:
    """Move this process to a network namespace that has no network. Most Linux systems allow this without root.

    Returns "none", or the reason why the process still has network access.
    """
    if sys.platform != "linux":
        return f"{sys.platform} has no network namespaces"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_USER | _NEW_NETWORK) == 0:
        return "none"
    return f"the system does not allow network namespaces: {os.strerror(ctypes.get_errno())}"


if __name__ == "__main__":
    # must run before any thread starts, because a process with threads cannot change its user namespace
    network = leave_network()
    import warnings
    from pathlib import Path

    warnings.simplefilter("ignore")

    from dataclasses import replace

    from autosched.judge.judging import judge
    from autosched.judge.task import TaskError, read_task
    from autosched.triton.session import emulated
    from autosched.verify.launch_plan import LaunchPlan
    from measurements.files.work_folders import temporary_folder
    from measurements.workers.messages import Message
    from measurements.workers.worker import serve
    from search_spaces.hardware.devices import device

    def handle(request: Message) -> Message:
        """Judge a submission and return the result or a ``refusal``. A request has the parameters of ``run_judge``."""
        row = device(request["device"])
        with temporary_folder("judge") as folder:
            try:
                # make torch report a GPU, because tasks may query it when they are loaded
                with emulated(row, check=False):
                    task = read_task(Path(request["task"]), request["sizes"], folder, uneven=request["uneven"])
                done = judge(
                    Path(request["submission"]),
                    task,
                    row,
                    plan=LaunchPlan.from_json(request["plan"]),
                    tolerance=request["tolerance"],
                )
            except TaskError as error:
                return Message({"refusal": str(error)})
            except OSError as error:
                return Message({"refusal": f"{error.filename or request['task']} cannot be read: {error.strerror}"})
        return Message(replace(done, network=network).to_json())

    serve(handle)
