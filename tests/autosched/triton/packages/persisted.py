"""Run unmodified autotuned kernels of liger-kernel and flash-linear-attention in the emulator, with a stub benchmark.

Print JSON with the number of timed configurations and the choice of each kernel.
"""

# mypy: ignore-errors
import gc
import json
import random

import torch
import triton
from fla.ops.hgrn import fused_recurrent_hgrn
from liger_kernel.ops.dyt import LigerDyTFunction

from autosched.triton import emulated

BATCH, TIME, SIZE = 1, 3, 32


def benchmark(call, quantiles=None, **options):
    timed.append(1)
    return [random.uniform(1.0, 2.0)] * 3


timed = []
with emulated("h100"):
    triton.runtime.driver.active.get_benchmarker = lambda: benchmark
    x, gate = (torch.randn(BATCH, TIME, SIZE, device="cuda") for _ in range(2))
    fused_recurrent_hgrn(x, torch.nn.functional.logsigmoid(gate))
    alpha, gamma, beta = (torch.ones(size, device="cuda").requires_grad_() for size in (1, SIZE, SIZE))
    x = torch.randn(4, SIZE, device="cuda").requires_grad_()
    LigerDyTFunction.apply(x, alpha, gamma, beta).backward(torch.ones(4, SIZE, device="cuda"))
tuners = [each for each in gc.get_objects() if isinstance(each, triton.runtime.Autotuner) and each.cache]
print(json.dumps({"timed": len(timed), "choices": {t.base_fn.__name__: str(t.best_config) for t in tuners}}))
