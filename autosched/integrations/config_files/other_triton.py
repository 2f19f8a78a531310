"""Compare the code that the Triton versions of two environments generate from configurations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from autosched.integrations.config_files.file_names import FileName, Format
from autosched.integrations.config_files.tuning.pool import WORKER, VerifierPool
from autosched.regression.check import CannotCheck
from autosched.regression.compiled_code import CompiledCode, worse_code
from autosched.regression.config_files import ConfigCheck
from autosched.regression.report import EntryStatus
from measurements.compiler.disassembly import LoopMix
from measurements.workers.transport import WorkerError
from measurements.workers.worker import Worker
from search_spaces.hardware.devices import Device, occupancy

_USABLE = ("ok", "compiled")
_SECONDS = 120.0  # time limit to import Triton


@dataclass(frozen=True)
class TritonChange:
    """How an entry's compiled code changes with the Triton version of the other environment.

    Attributes:
        verdict: New status of the entry; None if nothing gets worse.
        reasons: One line for each property that gets worse.
        numbers: Resources with the other version of Triton, and that version.
    """

    verdict: EntryStatus | None = None
    reasons: list[str] = field(default_factory=list)
    numbers: dict[str, float | int | str] = field(default_factory=dict)


class OtherTriton:
    """Compiles and verifies configurations in processes of another environment.

    Args:
        format: Package that the files belong to.
        check: Options, which contain the environment's Python, and whether results are emulated.
        workers: Number of processes; None for one per core.
    """

    def __init__(self, format: Format, check: ConfigCheck, workers: int | None = None) -> None:
        self._python = check.with_python
        self._pool = VerifierPool(format, verify=check.emulate, workers=workers, python=self._python)
        self.version = ""

    def start(self) -> None:
        """Start the processes. Raises CannotCheck for an environment without Triton, torch and numpy."""
        with Worker(WORKER, python=self._python) as worker:
            try:
                answer = worker.request({"version": True}, _SECONDS)
            except OSError as error:
                raise CannotCheck(
                    f"{self._python} cannot be run ({error.strerror}): pass the Python of an environment"
                ) from None
            except WorkerError as error:
                last = str(getattr(error, "stderr", "")).strip().splitlines()[-1:] or [str(error)]
                why = f"{self._python} cannot compile configurations ({last[0].strip()})"
                raise CannotCheck(f"{why}: install Triton, torch and numpy in that environment") from None
        self.version = str(answer["triton"])
        self._pool.__enter__()

    def close(self) -> None:
        """End the processes."""
        self._pool.close()

    def compared(
        self, name: FileName, config: Mapping[str, int], device: Device, installed: Mapping[str, Any]
    ) -> TritonChange:
        """Verify a configuration in the other environment, and compare the outcome with ``installed``.

        ``installed`` is the outcome in this environment.
        """
        other_verdict, _ = self._pool.verified(name, config, device)
        numbers = {
            f"{key}_there": other_verdict[key]
            for key in ("shared_bytes", "registers", "local_bytes", "loop_instructions")
            if other_verdict.get(key)
        } | {"triton_there": self.version}
        if other_verdict["status"] not in _USABLE:
            if installed["status"] not in _USABLE:
                return TritonChange(numbers=numbers)
            verdict = EntryStatus.of_verdict(other_verdict["status"])
            return TritonChange(
                verdict, [f"by Triton {self.version}: {other_verdict['reason'] or other_verdict['status']}"], numbers
            )
        reasons = list(worse_code(_code(installed, config, device), _code(other_verdict, config, device)))
        if reasons:
            reasons.append(f"tune it again with Triton {self.version}")
        return TritonChange(EntryStatus.SLOWER if reasons else None, reasons, numbers)


def _code(outcome: Mapping[str, Any], config: Mapping[str, int], device: Device) -> CompiledCode:
    """Return the properties of an outcome (``verify_config.ConfigOutcome``) that describe the compiled code."""
    threads = 32 * config.get("num_warps", 4)
    instructions = outcome.get("loop_instructions", 0)
    return CompiledCode(
        outcome["local_bytes"],
        outcome["registers"],
        occupancy(device, threads, outcome["registers"], outcome["shared_bytes"]),
        LoopMix(instructions, (), 0, None) if instructions else None,
    )
