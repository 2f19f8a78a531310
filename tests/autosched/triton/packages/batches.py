"""Kernels of packages that process batches of rows. Run as a script, the module compares all batches of one kernel."""

import json
import sys

import torch

MOST = 16


def rms_norm(x: torch.Tensor) -> torch.Tensor:
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction

    return LigerRMSNormFunction.apply(x, torch.ones(x.shape[1], device="cuda"), 1e-5, 0.0, "llama", False)


def softmax(x: torch.Tensor) -> torch.Tensor:
    from liger_kernel.ops.softmax import LigerSoftmaxFunction

    return LigerSoftmaxFunction.apply(x)


def layer_norm(x: torch.Tensor) -> torch.Tensor:
    from fla.modules.layernorm import layer_norm_fwd

    ones, zeros = torch.ones(x.shape[1], device="cuda"), torch.zeros(x.shape[1], device="cuda")
    return layer_norm_fwd(x, ones, zeros, 1e-5)[0]


def liger_rms_norm(rows: int) -> torch.Tensor:
    return rms_norm(torch.randn(rows, 512, device="cuda"))


def liger_softmax(rows: int) -> torch.Tensor:
    return softmax(torch.randn(rows, 512, device="cuda"))


def fla_layer_norm(rows: int) -> torch.Tensor:
    return layer_norm(torch.randn(rows, 256, device="cuda"))


def exhaustive(name: str) -> bool:
    """Return True if each row of the result has the same bits in all tested batches of neighbouring rows."""
    function = {"liger_rms_norm": rms_norm, "liger_softmax": softmax, "fla_layer_norm": layer_norm}[name]
    x = torch.randn(MOST, 256, device="cuda")
    complete = function(x).clone()
    batches = [
        (first, rows) for rows in range(1, MOST) for first in sorted({0, 1, MOST - rows}) if first + rows <= MOST
    ]
    return all(torch.equal(function(x[a : a + n].clone()), complete[a : a + n]) for a, n in batches)


if __name__ == "__main__":
    print(json.dumps({"exhaustive": exhaustive(sys.argv[1])}))
