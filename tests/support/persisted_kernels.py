"""Kernels with Triton's autotuner and a stub benchmark, which returns random times and writes them to a file.

No kernel is executed: ``launch`` returns the configuration that would be launched.
"""

# mypy: ignore-errors
import os
import random
import time

import triton
import triton.language as tl

COUNT = 20
CONFIGS = [triton.Config({"BLOCK": b}, num_warps=w) for b in (64, 128, 256) for w in (2, 4)]


@triton.jit
def increase(o, x, n, C: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + i, tl.load(x + i, mask=i < n) + C, mask=i < n)


def on_launch():
    """Do nothing. Tests replace this function."""


def autotuned(benchmark, function=increase, configs=CONFIGS, **options):
    """Return an autotuned kernel that uses ``benchmark``."""
    return triton.autotune(list(configs), key=["n", "C"], do_bench=benchmark, **options)(function)


def kernels(log, *, count=COUNT, configs=CONFIGS, seconds=0.0, term="+ C * {}", **options):
    """Return autotuned kernels that differ in their source text."""
    generated = []
    for k in range(count):
        function = triton.JITFunction(increase.fn)
        function._unsafe_update_src(increase.src.replace("+ C", term.format(k)))

        def benchmark(call, quantiles, k=k):
            time.sleep(seconds)
            drawn_seconds = random.uniform(1.0, 2.0)
            with open(log, "a", buffering=1) as file:
                file.write(f"{os.getpid()} {k}\n")
            return [drawn_seconds, drawn_seconds, drawn_seconds]

        generated.append(autotuned(benchmark, function, configs, **options))
    return generated


def launch(kernel, n, c=1):
    """Launch ``kernel``, and return the values of the chosen configuration."""

    class Array:
        dtype = "float32"

    launched, plain = [], triton.JITFunction.run

    def run(self, *args, **options):
        on_launch()
        launched.append(options)

    triton.JITFunction.run = run
    try:
        kernel[(1,)](Array(), Array(), n, C=c)
    finally:
        triton.JITFunction.run = plain
    return {name: value for name, value in launched[-1].items() if name in ("BLOCK", "num_warps")}
