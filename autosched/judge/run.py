"""Judges a submission in a process of its own, with limits of time and memory.

That is no sandbox. The submission's code runs as the caller's user: it can read and write that user's files, and a
submission that wants to can lie about itself. Run what strangers write in a container or a virtual machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from autosched.judge.result import SubmissionResult, SubmissionStatus
from autosched.verify.launch_plan import QUICK, LaunchPlan
from measurements.files.text import one_line
from measurements.trials.tolerance import checked_tolerance
from measurements.workers.resource_watch import WALL_CLOCK_TIMES, WorkerLimitExceeded, request_within
from measurements.workers.transport import WorkerDied, WorkerFailed
from measurements.workers.worker import Worker
from search_spaces.hardware.devices import Device

TIME_LIMIT = 120.0  # seconds of the CPU
MEMORY_LIMIT = 16 * 2**30  # bytes of address space, of which torch alone takes several GiB
_MEMORY_WORDS = ("memory", "bad_alloc", "SIGKILL")


class Refused(ValueError):
    """The task or the submission is not of its form. The message is one line."""


def run_judge(
    submission: Path,
    task: Path,
    device: Device,
    *,
    sizes: Mapping[str, int] | None = None,
    uneven: bool = True,
    plan: LaunchPlan = QUICK,
    tolerance: float = 0.0,
    time_limit: float = TIME_LIMIT,
    memory_limit: int = MEMORY_LIMIT,
) -> SubmissionResult:
    """Judge a submission in a process of its own, with limits.

    Args:
        submission: The file.
        task: A KernelBench file, or a ``task.yml`` of KernelBot's.
        device: The GPU that kernels are compiled for.
        sizes: Replace numbers of the task, by name; None for its own.
        uneven: Add a case of an uneven size (``read_task``).
        plan: As of ``judge``.
        tolerance: As of ``judge``.
        time_limit: Seconds of the CPU of the whole judgement.
        memory_limit: Bytes of the process.

    Returns:
        The verdict; a process that is killed is one.

    Raises:
        ToleranceError: The tolerance is not a finite number from 0 up.
        Refused: The task or the submission cannot be used; one line.
        WorkerError: The process cannot be started.
    """
    checked_tolerance(tolerance, "tolerance")
    request = {
        "submission": str(submission.resolve()),
        "task": str(task.resolve()),
        "device": device.name,
        "sizes": dict(sizes or {}),
        "uneven": uneven,
        "plan": plan.to_json(),
        "tolerance": tolerance,
    }
    with Worker("autosched.judge.worker", memory_limit=memory_limit) as worker:
        worker.start()
        try:
            answer = request_within(worker, request, seconds=time_limit)
        except WorkerLimitExceeded as exceeded:
            waited = exceeded.what == "wall clock"
            spent = f"{WALL_CLOCK_TIMES * time_limit:g} s" if waited else f"{time_limit:g} s of the CPU"
            return SubmissionResult(SubmissionStatus.TIMED_OUT, (f"it took more than {spent}",))
        except WorkerFailed as error:
            status = SubmissionStatus.OUT_OF_MEMORY if "MemoryError" in str(error) else SubmissionStatus.FAILED
            return SubmissionResult(status, (one_line(str(error)),))
        except WorkerDied as error:
            out = any(word in f"{error}{error.stderr}" for word in _MEMORY_WORDS)
            return SubmissionResult(
                SubmissionStatus.OUT_OF_MEMORY if out else SubmissionStatus.FAILED, (one_line(str(error)),)
            )
    if "refusal" in answer:
        raise Refused(one_line(answer["refusal"]))
    return SubmissionResult.from_json(answer)
