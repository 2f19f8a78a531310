"""Judge a submission in a separate process, with limits of time and memory.

The process is not a sandbox. The submission runs as the caller's user. It can read and write that user's files, and can
manipulate the result. Run third-party submissions in a container or a virtual machine.
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

TIME_LIMIT = 120.0  # default limit in CPU seconds
MEMORY_LIMIT = 16 * 2**30  # default limit on address space in bytes; torch alone takes several GiB
_MEMORY_WORDS = ("memory", "bad_alloc", "SIGKILL")


class Refused(ValueError):
    """The task or the submission is invalid. The message is one line."""


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
    """Judge a submission in a separate process, with limits.

    Args:
        submission: The file.
        task: A KernelBench file, or KernelBot's ``task.yml``.
        device: The GPU that kernels are compiled for.
        sizes: Sizes by name, which replace the task's own; None for no change.
        uneven: If True, add a case with an uneven size (``read_task``).
        plan: Emulated runs of each launch.
        tolerance: Allowed relative error; 0 for the limit of the output's type.
        time_limit: CPU seconds for all runs together.
        memory_limit: Limit on the address space of the process in bytes.

    Returns:
        The result, even if the process was killed.

    Raises:
        ToleranceError: The tolerance is negative or not finite.
        Refused: The task or the submission cannot be used.
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
            waited = exceeded.limit == "wall clock"
            spent = f"{WALL_CLOCK_TIMES * time_limit:g} s" if waited else f"{time_limit:g} CPU seconds"
            return SubmissionResult(SubmissionStatus.TIMED_OUT, (f"the submission took more than {spent}",))
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
