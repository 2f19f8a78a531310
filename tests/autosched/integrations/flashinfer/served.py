"""A program for ``autosched serve``: FlashInfer's autotuner tunes three operations with stub runners."""

import json
import os

import flashinfer
import torch
from flashinfer import autotuner

torch.cuda.get_device_name = lambda *_: "NVIDIA B200"  # there is no GPU
torch.cuda.current_device = lambda: 0
torch.cuda.is_current_stream_capturing = lambda: False
torch.cuda.synchronize = torch.cuda.empty_cache = lambda *_: None

OPERATIONS = ("fp4_gemm", "trtllm_fp4_block_scale_moe", "bmm_fp8")
timed: list[object] = []


class Runner(autotuner.TunableRunner):
    def get_valid_tactics(self, inputs, profile):
        return [(1, 2), (3, 4), (5, 6)]

    def forward(self, inputs, tactic=-1, do_preparation=False, **kwargs):
        return tactic

    def __hash__(self):
        return id(self)


def profile(self, runner, inputs, tactic, *args, **kwargs):
    timed.append(tactic)
    return 0.0 if tactic[0] == 1 + 2 * (os.getpid() % 3) else 1.0  # which tactic is fastest depends on the process


tuner, config, runner = autotuner.AutoTuner.get(), autotuner.TuningConfig(), Runner()
type(tuner)._profile_single_kernel = profile


def choices() -> list[list[int]]:
    return [list(tuner.choose_one(name, [runner], config, [torch.zeros(4, 8)])[1]) for name in OPERATIONS]


with flashinfer.autotune(True):
    choices()
print(json.dumps({"choices": choices(), "timed": len(timed)}))
