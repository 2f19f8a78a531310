"""Triton kernels of bitsandbytes against its own definitions in torch."""

import sys
from importlib.util import find_spec, module_from_spec

import first_configuration  # noqa: F401

# isort: split
import torch
from host_comparison import randn

# Its own import needs its compiled library.
for _name in ("bitsandbytes", "bitsandbytes.backends"):
    sys.modules[_name] = module_from_spec(find_spec(_name))

from bitsandbytes.backends.triton import kernels_optim, ops  # noqa: E402

_CODE = torch.linspace(-1, 1, 256)


def eight_bits():
    x = randn(1000)
    found, most = ops.quantize_blockwise(x.to("cuda"), _CODE.to("cuda"), 256)
    expected, of_blocks = kernels_optim._quantize_blockwise_pytorch(x, _CODE, 256)
    torch.testing.assert_close(most.to("cpu"), of_blocks)
    assert (found.to("cpu").int() - expected.reshape(found.shape).int()).abs().max() <= 1  # of two that are as near
    again = ops.dequantize_blockwise(found, most, _CODE.to("cuda"), 256, torch.float32)
    torch.testing.assert_close(again.to("cpu"), x, rtol=0, atol=float(of_blocks.max()) / 250)


def _four_bits(kind, step, dtype=torch.float32):
    x = randn(1024).to(dtype)
    packed, most = ops.quantize_4bit(x.to("cuda"), 64, kind, torch.uint8)
    torch.testing.assert_close(most.to("cpu"), x.reshape(-1, 64).abs().amax(1).float())
    again = ops.dequantize_4bit(packed, most, 64, kind, (1024,), dtype)
    assert ((again.to("cpu") - x).reshape(-1, 64).abs().amax(1) <= step * most.to("cpu")).all()


def four_bits_normal():
    _four_bits("nf4", 0.16)


def four_bits_normal_of_f16():
    _four_bits("nf4", 0.17, torch.float16)


def four_bits_floating():
    _four_bits("fp4", 0.17)


def _states(two):
    first, most = kernels_optim._quantize_blockwise_pytorch(randn(1000, seed=2) / 9, _CODE, 256)
    if not two:
        return first, None, most, None
    second, of_second = kernels_optim._quantize_blockwise_pytorch(randn(1000, seed=3).square() / 9, _CODE, 256)
    return first, second, most, of_second


def _optimizer(name, two, squares=False):
    p, g = randn(1000), randn(1000, seed=1)
    s1, s2, a1, a2 = _states(two)
    if squares:  # what its state is
        _, s1, _, a1 = _states(two=True)
    moved = {n: t if t is None else t.clone().to("cuda") for n, t in zip("pgstuv", (p, g, s1, s2, a1, a2), strict=True)}
    numbers = {
        "beta1": 0.9, "beta2": 0.99, "beta3": 0.0, "alpha": 0.0, "eps": 1e-3, "step": 3, "lr": 0.1,
        "weight_decay": 0.01, "gnorm_scale": 1.0, "skip_zeros": False, "optimizer_name": name,
    }  # fmt: skip
    kernels_optim.optimizer_update_8bit_blockwise_pytorch(
        p=p, g=g, state1=s1, state2=s2, absmax1=a1, absmax2=a2, qmap1=_CODE, qmap2=_CODE if two else None, **numbers
    )
    code = _CODE.to("cuda")
    ops.optimizer_update_8bit_blockwise(
        p=moved["p"], g=moved["g"], state1=moved["s"], state2=moved["t"], absmax1=moved["u"], absmax2=moved["v"],
        qmap1=code, qmap2=code if two else None, **numbers,
    )  # fmt: skip
    torch.testing.assert_close(moved["p"].to("cpu"), p, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(moved["u"].to("cpu"), a1, rtol=1e-3, atol=1e-3)


def adam_of_eight_bits():
    _optimizer("adam", two=True)


def momentum_of_eight_bits():
    _optimizer("momentum", two=False)


def lion_of_eight_bits():
    _optimizer("lion", two=False)


def rmsprop_of_eight_bits():
    _optimizer("rmsprop", two=False, squares=True)


def adagrad_of_eight_bits():
    _optimizer("adagrad", two=False, squares=True)


def _optimizer_of_32_bits(name, two):
    p, g, s1 = randn(1000), randn(1000, seed=1), torch.zeros(1000)
    s2 = torch.zeros(1000) if two else None
    moved = [t if t is None else t.clone().to("cuda") for t in (g, p, s1, s2)]
    ops.optimizer_update_32bit(name, *moved, None, 0.0, 0.0, 0.9, 0.99, 0.0, 0.0, 1e-8, 0.01, 1, 0.1, 1.0)
    kept = torch.nn.Parameter(p.clone())
    kept.grad = g
    if name == "adam":
        torch.optim.AdamW([kept], lr=0.1, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.01).step()
    else:
        torch.optim.SGD([kept], lr=0.1, momentum=0.9, weight_decay=0.01).step()
    torch.testing.assert_close(moved[1].to("cpu"), kept.detach(), rtol=1e-4, atol=1e-4)


def adam_of_32_bits():
    _optimizer_of_32_bits("adam", two=True)


def momentum_of_32_bits():
    _optimizer_of_32_bits("momentum", two=False)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
