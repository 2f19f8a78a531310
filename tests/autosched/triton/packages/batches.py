"""Functions of packages over batches of rows, each of which returns one row for each."""

import torch


def liger_rms_norm(rows: int) -> torch.Tensor:
    from liger_kernel.ops.rms_norm import LigerRMSNormFunction

    x = torch.randn(rows, 512, device="cuda")
    weight = torch.randn(512, device="cuda")
    return LigerRMSNormFunction.apply(x, weight, 1e-5, 0.0, "llama", False)


def liger_softmax(rows: int) -> torch.Tensor:
    from liger_kernel.ops.softmax import LigerSoftmaxFunction

    return LigerSoftmaxFunction.apply(torch.randn(rows, 512, device="cuda"))


def fla_layer_norm(rows: int) -> torch.Tensor:
    from fla.modules.layernorm import layer_norm_fwd

    x = torch.randn(rows, 256, device="cuda")
    return layer_norm_fwd(x, torch.randn(256, device="cuda"), torch.randn(256, device="cuda"), 1e-5)[0]
