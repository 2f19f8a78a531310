"""Processes that compile and verify configurations in parallel. Each distinct configuration is verified once."""

from __future__ import annotations

import json
import queue
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any, Self

from autosched.integrations.config_files.file_names import FileName, Format
from autosched.integrations.config_files.layer import Layer
from autosched.verify.oracle import UNVERIFIED
from measurements.compiler.cores import usable_cores
from measurements.files.text import one_line
from measurements.workers.resource_watch import WorkerLimitExceeded, request_within
from measurements.workers.transport import WorkerError, WorkerFailed
from measurements.workers.worker import Worker
from search_spaces.hardware.devices import Device

WORKER = "autosched.integrations.config_files.worker"
# CPU seconds per configuration, for compilation and emulation together; emulation also has a separate limit
_SECONDS = 300.0


class VerifierPool:
    """Pool of processes that compile configurations. If ``verify`` is True, they also emulate each one.

    ``python`` is the interpreter of an environment with another version of Triton. Up to ``workers`` threads may use
    the pool at the same time.
    """

    def __init__(
        self, format: Format, *, verify: bool = True, workers: int | None = None, python: str = sys.executable
    ) -> None:
        self.workers = workers or usable_cores()
        self._format, self._verify, self._python = format, verify, python
        self._idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
        self._stack = ExitStack()
        self._known: dict[str, tuple[Mapping[str, Any], float]] = {}
        self._counted: dict[str, Mapping[str, Any]] = {}

    def __enter__(self) -> Self:
        for _ in range(self.workers):
            self._idle.put(self._stack.enter_context(Worker(WORKER, python=self._python)))
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def close(self) -> None:
        """End the processes."""
        self._stack.close()

    @staticmethod
    def key(name: FileName, config: Mapping[str, int], device: Device) -> str:
        """Return a key of all inputs that affect a configuration's compiled code or the limits of this code."""
        kind = [name.is_moe, name.dtype, name.block_shape, name.per_channel]
        return json.dumps([*kind, device.arch, device.shared_per_block, sorted(config.items())])

    def verified(self, name: FileName, config: Mapping[str, int], device: Device) -> tuple[Mapping[str, Any], float]:
        """Return the outcome as JSON (``verify_config.ConfigOutcome``), and the seconds that verification took."""
        key = self.key(name, config, device)
        if key not in self._known:
            began = time.monotonic()
            request = {
                "format": self._format,
                "name": name.text(self._format),
                "config": dict(config),
                "device": device.name,
                "verify": self._verify,
            }
            self._known[key] = self._answer_of(request), time.monotonic() - began
        return self._known[key]

    def counted(self, layer: Layer, rows: int, config: Mapping[str, int], device: Device) -> float | None:
        """Estimate the time of a batch from counts of the compiled kernel.

        A worker process computes the estimate. Results are cached.

        Args:
            layer: Experts, sizes and types.
            rows: Tokens of the batch.
            config: Tiles, warps and stages.
            device: The GPU.

        Returns:
            ESTIMATED seconds; None if the kernel cannot be counted.
        """
        key = json.dumps([asdict(layer), rows, device.name, sorted(config.items())])
        if key not in self._counted:
            request = {
                "format": self._format,
                "layer": asdict(layer),
                "rows": rows,
                "config": dict(config),
                "device": device.name,
            }
            self._counted[key] = self._answer_of(request)
        seconds = self._counted[key].get("seconds")
        return None if seconds is None else float(seconds)

    def _answer_of(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        worker = self._idle.get()
        try:
            return request_within(worker, request, seconds=_SECONDS)
        except WorkerFailed as error:  # a bug in autosched: report it, and continue with other configurations
            return {"status": UNVERIFIED, "reason": one_line(f"the configuration could not be verified: {error}")}
        except WorkerLimitExceeded:
            return {"status": UNVERIFIED, "reason": f"verification took more than {_SECONDS:.0f} s of CPU time"}
        except WorkerError as error:
            return {"status": "compile_error", "reason": one_line(f"the compiler ended the process: {error}")}
        finally:
            self._idle.put(worker)
