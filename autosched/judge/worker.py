"""The process in which a submission runs: without a network where the system lets it, with limits of its parent."""

from __future__ import annotations

import ctypes
import os
import sys

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000


def leave_network() -> str:
    """Leave the network for a name space of its own, which needs no root on most Linux systems; "none", or why not."""
    if sys.platform != "linux":
        return f"{sys.platform} has no network name spaces"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_USER | _NEW_NETWORK) == 0:
        return "none"
    return f"the system lets no process leave it: {os.strerror(ctypes.get_errno())}"


if __name__ == "__main__":
    network = leave_network()  # first of all: a process with threads cannot
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
        """Return the verdict on a request, which has the parameters of ``run_judge`` by name, or a ``refusal``."""
        row = device(request["device"])
        with temporary_folder("judge") as folder:
            try:
                with emulated(row, check=False):  # tasks may ask for the GPU when they are loaded
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
