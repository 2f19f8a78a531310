"""Fake GPU worker whose candidates misbehave on demand, to test that runners isolate failures.

It answers the same requests as ``measurements.runners.cuda.worker``. Pass ``MODULE`` to CudaRunner as the worker module
and ``[HERE]`` as the path. The name of a candidate's kernel consists of words joined by underscores, the first of which
selects the behaviour:

- ``time_NS_...``: measured at NS nanoseconds, with fewer repeats if the candidate is hopeless
- ``slow_MS_NS_...``: the same, after MS milliseconds of measuring
- ``wrong``: wrong numbers
- ``error``: a launch that fails cleanly
- ``poison``: an illegal access, after which everything fails until the process is replaced
- ``hang``, ``spin``: never ends, asleep or busy
- ``segfault``, ``abort``, ``exit``: the process dies
- ``once_NS_...``: dies the first time and is measured the second time
- ``memory``: allocates memory until none is left
- ``shout_NS_...``: fills standard output, then is measured
- ``garbage``: bytes that are not an answer
- ``half``: half an answer, then the process dies
- ``stranger``: an answer to another request
- ``mute``: closes its output and stays alive
- ``parent``: dies, while a child process keeps the pipes open
- ``nonsense``, ``negative``: answers with impossible values
- ``raise``: an exception
- ``paint``: a failure whose reason contains terminal escape sequences
- ``unplug``: dies, and the GPU stays unavailable

``once`` and ``unplug`` leave marker files in the folder given by AUTOSCHED_FAULTS_FOLDER.
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measurements.trials.measurement import Status
from measurements.trials.timing_statistics import StopRule
from measurements.workers.worker import serve

if TYPE_CHECKING:  # the worker starts without numpy, since tests restart it hundreds of times
    from search_spaces.launches.generated_kernel import GeneratedKernel
    from search_spaces.operators.problem import Problem

MODULE = "faults"
HERE = str(Path(__file__).parent)  # the worker finds this module on its path
FOLDER_VARIABLE = "AUTOSCHED_FAULTS_FOLDER"
CLOCK_MHZ = 1500.0
WATTS = 321.0
_MEMORY = 1 << 28
_ANSWERS = {
    "garbage": b"\x00\xffthis is no answer\n",
    "half": b'{"id": 1, "resu',
    "stranger": b'{"id": 0, "result": {"status": "ok", "seconds": [1e-9]}}\n',
}


def fault_kernel(name: str, problem: Problem) -> GeneratedKernel:
    """Return a kernel that compiles in milliseconds and whose ``name`` selects the worker's behaviour."""
    from search_spaces.launches.generated_kernel import GeneratedKernel

    source = f'extern "C" __global__ void {name}() {{}}\n'
    return GeneratedKernel(entry=name, source=source, arguments=problem.operands(), grid=(1, 1, 1), block=(32, 1, 1))


class FaultyGpu:
    """State of the simulated GPU: the prepared candidates, and whether its context is poisoned."""

    def __init__(self) -> None:
        self._prepared = ""
        self._poisoned = False

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer like ``measurements.runners.cuda.worker``, or fail as the kernel's name says."""
        operation = request["op"]
        if operation == "open":
            return {
                "name": "no GPU",
                "memory_bytes": 0,
                "attributes": {"MultiProcessorCount": 1},
                "driver": "none",
                "cuda_driver": 0,
                "cuda_runtime": 0,
                "cupy": "none",
            }
        if _mark("unplugged").exists():
            raise RuntimeError("no GPU is there")
        if self._poisoned:
            raise RuntimeError("the context is poisoned")
        if operation == "prepare":
            if not request["arrays"]:
                return {"missing": ["reference", "tolerance"], "why": "it has no arrays"}
            self._prepared = request["data"]
            return {}
        if operation in ("measure", "compare", "outputs") and request["data"] != self._prepared:
            raise RuntimeError("measured before it was prepared")
        if operation == "measure":
            answer = self._measure(request["kernel"]["launch"]["entry"])
            answer |= {"watts": WATTS} if request["power"] else {}
            if StopRule().hopeless(answer["seconds"], request["best"]):
                answer |= {"seconds": answer["seconds"][:3], "reason": "repeated only 3 times"}
            return answer
        if operation == "outputs":
            return {"status": Status.OK.value, "outputs": {}}
        if operation == "compare":
            entrants = [self._measure(kernel["launch"]["entry"]) for kernel in request["kernels"]]
            warm = request["data"].endswith("cold 0")
            entrants += [self._measure("time_2500" if warm else "time_3000") for _ in request["baselines"]]
            for entrant in entrants:
                if "seconds" in entrant:
                    entrant["seconds"] = entrant["seconds"][:1] * request["rounds"]
            return {"status": Status.OK.value, "entrants": entrants, "clock_mhz": CLOCK_MHZ}
        return {}

    def _measure(self, name: str) -> dict[str, Any]:
        behaviour, *words = name.split("_")
        if behaviour in ("hang", "spin"):
            while True:
                time.sleep(3600 if behaviour == "hang" else 0)
        if behaviour == "unplug":
            _mark("unplugged").touch()
        if behaviour == "segfault":
            ctypes.string_at(0)
        if behaviour == "abort":
            os.abort()
        if behaviour == "once" and not _mark(name).exists():
            _mark(name).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if behaviour == "memory":
            resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
            hoard = []
            while True:
                hoard.append(bytearray(1 << 24))
        if behaviour in _ANSWERS:
            for fd in range(3, 64):
                with suppress(OSError):
                    os.write(fd, _ANSWERS[behaviour])
        if behaviour == "mute":
            os.closerange(3, 64)
            time.sleep(3600)
        if behaviour == "parent":
            child = os.fork()
            if child == 0:
                time.sleep(3600)
            _mark("child").write_text(str(child))
        if behaviour in ("exit", "unplug", "half", "parent"):
            os._exit(3)
        if behaviour == "shout":
            print("noise " * 50_000, flush=True)
        if behaviour == "raise":
            raise RuntimeError("raised on demand")
        if behaviour == "poison":
            self._poisoned = True
            return {
                "status": Status.LAUNCH_ERROR.value,
                "reason": "cudaErrorIllegalAddress: on demand",
                "seconds": [],
                "poisoned": True,
            }
        if behaviour in ("wrong", "error"):
            status = Status.WRONG_RESULT if behaviour == "wrong" else Status.LAUNCH_ERROR
            return {"status": status.value, "reason": f"{behaviour} on demand", "seconds": [], "error": math.inf}
        if behaviour == "paint":
            return {"status": Status.LAUNCH_ERROR.value, "reason": "\x1b[31mred\x07\r\non two lines", "seconds": []}
        if behaviour == "nonsense":
            return {"status": "splendid"}
        if behaviour == "negative":
            return {"status": Status.OK.value, "seconds": [-1.0], "error": 0.0}
        if behaviour == "slow":
            time.sleep(int(words.pop(0)) * 1e-3)
        if behaviour == "counted":
            with _mark(name).open("a", encoding="ascii") as file:
                file.write("x")
        return {"status": Status.OK.value, "seconds": [int(words[0]) * 1e-9] * 5, "error": 0.5, "clock_mhz": CLOCK_MHZ}


def _mark(name: str) -> Path:
    return Path(os.environ.get(FOLDER_VARIABLE, "/nonexistent")) / name


if __name__ == "__main__":
    serve(FaultyGpu().handle)
