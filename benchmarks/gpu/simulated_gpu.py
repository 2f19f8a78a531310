"""A simulated GPU worker. Every measurement sleeps for AUTOSCHED_SIMULATED_SECONDS, and succeeds.

The worker appends start time, end time and GPU number of each measurement to the file AUTOSCHED_SIMULATED_LOG.
"""

from __future__ import annotations

import os
import time
import zlib
from typing import Any

from measurements.workers.messages import Message
from measurements.workers.worker import serve

MODULE = "benchmarks.gpu.simulated_gpu"
SECONDS, LOG = "AUTOSCHED_SIMULATED_SECONDS", "AUTOSCHED_SIMULATED_LOG"


class SimulatedGpu:
    """The worker. It derives a kernel's time from the digest of the cubin, so that the time is always the same."""

    def __init__(self) -> None:
        self._gpu = 0
        self._prepared: dict[str, Any] = {}

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a request as ``cuda_worker`` would."""
        if request["op"] == "open":
            self._gpu = request["gpu"]
            return {
                "name": "simulated GPU",
                "memory_bytes": 0,
                "attributes": {"MultiProcessorCount": 132},
                "driver": "none",
                "cuda_driver": 0,
                "cuda_runtime": 0,
                "cupy": "none",
            }
        if request["op"] == "prepare":
            self._prepared = request
            return {}
        if request["op"] == "outputs":
            return right_outputs(self._prepared)
        if request["op"] == "measure":
            began = time.monotonic()
            time.sleep(float(os.environ[SECONDS]))
            with open(os.environ[LOG], "a", encoding="ascii") as log:
                log.write(f"{began} {time.monotonic()} {self._gpu} {os.getpid()}\n")
            return answer(request["kernel"])
        if request["op"] == "compare":
            entrants = [answer(kernel) for kernel in request["kernels"]] + [answer({}) for _ in request["baselines"]]
            for entrant in entrants:
                entrant["seconds"] = entrant["seconds"][:1] * request["rounds"]
            return {"status": "ok", "entrants": entrants}
        return {}


def answer(kernel: dict[str, Any]) -> dict[str, Any]:
    seconds = 1e-5 + 1e-9 * (zlib.crc32(str(kernel.get("cubin", "")).encode()) % 10_000)
    return {"status": "ok", "seconds": [seconds] * 7, "error": 0.1}


def right_outputs(prepared: dict[str, Any]) -> Message:
    """Return the outputs of a correct kernel, as bytes by name."""
    import numpy as np  # imported here, because only this function needs it

    from search_spaces.catalogue import problem_from_json

    problem = problem_from_json(prepared["problem"])
    reference = problem.reference(problem.random_inputs(prepared["seed"]))
    answer = Message({"status": "ok", "outputs": {}})
    for operand in problem.operands():
        if operand.role == "output":
            stored = np.ascontiguousarray(operand.dtype.store(reference[operand.name]))
            answer["outputs"][operand.name] = answer.attach(stored.tobytes())
    return answer


if __name__ == "__main__":
    serve(SimulatedGpu().handle)
