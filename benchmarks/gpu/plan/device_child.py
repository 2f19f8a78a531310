"""A process that times calls of torch and of autosched's functions on the GPU, and prints a JSON line per result.

    python -m benchmarks.gpu.plan.device_child host|language KEY...

GPU times are measured by CUDA events around a series of calls. The operands of these calls are in DRAM and not in L2.
Host times are CPU times of calls that are made slowly enough for the GPU to keep up. The functions alternate.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks.gpu.plan.torch_calls import LANGUAGE

HOST = ("calls", "chain of 40 decode products", "chain of 20 decode layers, with and without dependent launches")
_ROUNDS, _CALLS = 30, 200
_SECONDS = 0.3  # repetitions of each GPU measurement

Call = Callable[[int], Any]


def host_calls() -> dict[str, float]:
    """Return the host time of one call of each function, in microseconds: the median of alternating rounds."""
    import torch

    import autosched
    import autosched.torch

    a, b = (torch.randn(64, 64, device="cuda", dtype=torch.float16) for _ in range(2))
    calls: dict[str, Callable[[], Any]] = {
        "torch.matmul": lambda: torch.matmul(a, b),
        "torch.ops.autosched.matmul": lambda: torch.ops.autosched.matmul(a, b),
        "autosched.matmul": lambda: autosched.matmul(a, b),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for call in calls.values():
        call()
    torch.cuda.synchronize()
    for _ in range(_ROUNDS):
        for name, call in calls.items():
            began = time.perf_counter()
            for _ in range(_CALLS):
                call()
            times[name].append((time.perf_counter() - began) / _CALLS)
            torch.cuda.synchronize()
    return {name: statistics.median(each) * 1e6 for name, each in times.items()}


def decode_chain() -> dict[str, float]:
    """Return microseconds of a CUDA graph of 40 matmuls with 16 rows. Each matmul reads the previous result."""
    import torch

    import autosched.torch  # noqa: F401  # defines torch.ops.autosched

    weights = [torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) / 64 for _ in range(40)]
    x = torch.randn(16, 4096, device="cuda", dtype=torch.bfloat16)
    times = {}
    for name, product in (("torch.matmul", torch.matmul), ("autosched", torch.ops.autosched.matmul)):

        def chain(product: Callable[..., Any] = product) -> Any:
            value = x
            for weight in weights:
                value = product(value, weight)
            return value

        chain()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            chain()
        times[name] = _microseconds(lambda _, graph=graph: graph.replay(), 1)
    return times


def dependent_chain() -> dict[str, float]:
    """Return microseconds of a CUDA graph of 20 layers of three short kernels, without and with overlap of launches.

    With programmatic dependent launch, a kernel may begin before its predecessor has ended. A dependent kernel is never
    timed alone, because successive launches of the kernel would overlap each other.
    """
    import torch

    import autosched

    database = autosched.Database(None)
    rows, width, layers = 16, 4096, 20
    problems = (
        autosched.RmsNorm(rows, width, "bf16"),
        autosched.Matmul(rows, width, width, a="bf16", b="bf16", out="bf16"),
        autosched.Softmax(rows, width, "bf16"),
    )
    scale = torch.ones(width, device="cuda", dtype=torch.bfloat16)
    weights = [torch.randn(width, width, device="cuda", dtype=torch.bfloat16) / 64 for _ in range(layers)]
    x = torch.randn(rows, width, device="cuda", dtype=torch.bfloat16)
    times = {}
    for name in ("ordinary", "dependent"):
        norm, product, softmax = (database.kernel(p, dependent=name == "dependent") for p in problems)

        def chain(norm: Call = norm, product: Any = product, softmax: Call = softmax) -> Any:
            value = x
            for weight in weights:
                value = softmax(product(norm(value, scale), weight))
            return value

        chain()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            chain()
        times[name] = _microseconds(lambda _, graph=graph: graph.replay(), 1)
    return times


def _torch_time(name: str, problem: Mapping[str, Any]) -> dict[str, float]:
    call, copies = LANGUAGE[name](**{key: value for key, value in problem.items() if key != "operator"})
    return {"torch": _microseconds(call, copies)}


def _microseconds(call: Call, copies: int) -> float:
    """Return the median time of one call on a warm GPU."""
    import torch

    until, times, i = time.perf_counter() + _SECONDS, list[float](), 0
    call(0)
    while time.perf_counter() < until or len(times) < 5:
        events = [torch.cuda.Event(enable_timing=True) for _ in range(9)]
        call(i % copies)  # keeps the GPU busy while the following calls are queued
        events[0].record()
        for event in events[1:]:
            i += 1
            call(i % copies)
            event.record()
        torch.cuda.synchronize()
        times += [before.elapsed_time(after) * 1e3 for before, after in itertools.pairwise(events)]
    return statistics.median(times)


def main(arguments: Sequence[str]) -> int:
    """Print a result line for each key in the arguments.

    A key of the part "language" is a JSON list with a call and a problem.
    """
    part, *keys = arguments
    for key in keys:
        try:
            if part == "host":
                microseconds = dict(zip(HOST, (host_calls, decode_chain, dependent_chain), strict=True))[key]()
            else:
                name, problem = json.loads(key)
                microseconds = _torch_time(name, problem)
            row: dict[str, Any] = {"microseconds": microseconds}
        except Exception as error:  # an exception from torch or the driver becomes the reason for a missing time
            row = {"reason": f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"}
        print(json.dumps({"key": key, **row}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
