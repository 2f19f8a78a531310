"""Fake GPU worker. Its times have noise, and a drift that is equal for all programs of a round.

A program takes 1 ms. With AUTOSCHED_NOISY_SLOW="T=F" it takes F ms if its cubin contains the text T. Each comparison
draws its own noise.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, str(Path(HERE).parents[2]))

from benchmarks.gpu.simulated_gpu import SimulatedGpu, right_outputs  # noqa: E402
from measurements.workers.worker import serve  # noqa: E402

MODULE, SLOW = "noisy_gpu", "AUTOSCHED_NOISY_SLOW"
NOISE, DRIFT = 0.003, 0.2


class NoisyGpu(SimulatedGpu):
    """A simulated GPU whose comparisons are noisy."""

    def __init__(self) -> None:
        super().__init__()
        self._seeds = itertools.count(os.getpid())

    def handle(self, request: Any) -> Any:
        if request["op"] != "compare":
            return right_outputs(self._prepared) if request["op"] == "outputs" else super().handle(request)
        rng, rounds = np.random.default_rng(next(self._seeds)), int(request["rounds"])
        text, _, factor = os.environ.get(SLOW, "").rpartition("=")
        machine = 1e-3 * (1 + DRIFT * np.linspace(0, 1, rounds))
        cubins = [bytes(request.blobs[kernel["cubin"]]) for kernel in request["kernels"]]
        factors = [float(factor) if text and text.encode() in cubin else 1.0 for cubin in cubins]
        entrants = []
        for own in [*factors, *[2.0] * len(request["baselines"])]:
            seconds = machine * own * np.exp(NOISE * rng.standard_normal(rounds))
            entrants.append({"status": "ok", "seconds": [float(t) for t in seconds], "error": 0.1})
        return {"status": "ok", "entrants": entrants}


if __name__ == "__main__":
    serve(NoisyGpu().handle)
