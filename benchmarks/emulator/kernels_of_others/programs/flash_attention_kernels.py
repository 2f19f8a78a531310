"""Triton kernels of flash-attention, forward and backward, against its own definitions in torch and torch's.

Its attention in Triton, of 2022, has arguments of tl.dot that Triton 3.4 does not know; linear.py imports triton.ops.
"""

import sys
from functools import partial
from importlib.util import find_spec, module_from_spec

import first_configuration  # noqa: F401

# isort: split
import torch
import torch.nn.functional as F
from host_comparison import randn, same

# Its own import needs its compiled library.
_spec = find_spec("flash_attn")
sys.modules["flash_attn"] = module_from_spec(_spec)

from flash_attn.ops.triton.cross_entropy import cross_entropy_loss  # noqa: E402
from flash_attn.ops.triton.layer_norm import layer_norm_fn, rms_norm_fn  # noqa: E402
from flash_attn.ops.triton.rotary import apply_rotary  # noqa: E402

_same = partial(same, tolerance=1e-4)


def layer_norm():
    _same(
        lambda x, w, b: layer_norm_fn(x, w, b, eps=1e-5),
        lambda x, w, b: F.layer_norm(x, (200,), w, b),
        randn(6, 200), randn(200, seed=1), randn(200, seed=2),
    )  # fmt: skip


def layer_norm_of_a_sum():
    _same(
        lambda x, r, w, b: layer_norm_fn(x, w, b, residual=r, eps=1e-5),
        lambda x, r, w, b: F.layer_norm(x + r, (200,), w, b),
        randn(6, 200), randn(6, 200, seed=3), randn(200, seed=1), randn(200, seed=2),
    )  # fmt: skip


def rms_norm():
    _same(
        lambda x, w: rms_norm_fn(x, w, None, eps=1e-5),
        lambda x, w: F.rms_norm(x, (300,), w, 1e-5),
        randn(6, 300), randn(300, seed=1),
    )  # fmt: skip


def rms_norm_of_a_sum():
    _same(
        lambda x, r, w: rms_norm_fn(x, w, None, residual=r, eps=1e-5),
        lambda x, r, w: F.rms_norm(x + r, (300,), w, 1e-5),
        randn(6, 300), randn(6, 300, seed=2), randn(300, seed=1),
    )  # fmt: skip


def layer_norm_without_bias():
    _same(
        lambda x, w: layer_norm_fn(x, w, None, eps=1e-5),
        lambda x, w: F.layer_norm(x, (300,), w),
        randn(6, 300), randn(300, seed=1),
    )  # fmt: skip


def rms_norm_scaled_by_rows():
    scale = torch.rand(6, generator=torch.Generator().manual_seed(5))
    _same(
        lambda x, w: rms_norm_fn(x, w, None, eps=1e-5, rowscale=scale.to("cuda")),
        lambda x, w: F.rms_norm(x * scale[:, None], (300,), w, 1e-5),
        randn(6, 300), randn(300, seed=1),
    )  # fmt: skip


def cross_entropy():
    labels = torch.randint(300, (7,), generator=torch.Generator().manual_seed(1))
    labels[3] = -100
    _same(
        lambda x: cross_entropy_loss(x, labels.to("cuda"), label_smoothing=0.1)[0],
        lambda x: F.cross_entropy(x, labels, label_smoothing=0.1, reduction="none"),
        randn(7, 300),
    )


def _turned(x, cos, sin, interleaved):
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    first, second = a * cos - b * sin, b * cos + a * sin
    return torch.stack((first, second), -1).flatten(-2) if interleaved else torch.cat((first, second), -1)


def _rotary(interleaved, in_place):
    angle = torch.arange(11)[:, None] * 10000.0 ** (-torch.arange(16) / 16)
    cos, sin, x = torch.cos(angle), torch.sin(angle), randn(2, 11, 3, 32)
    expected = _turned(x, cos[:, None], sin[:, None], interleaved)
    found = apply_rotary(x.to("cuda"), cos.to("cuda"), sin.to("cuda"), interleaved=interleaved, inplace=in_place)
    torch.testing.assert_close(found.to("cpu"), expected, rtol=1e-4, atol=1e-5)


def rotary():
    _rotary(interleaved=False, in_place=False)


def rotary_in_place():
    _rotary(interleaved=False, in_place=True)


def rotary_of_pairs():
    _rotary(interleaved=True, in_place=False)


def rotary_of_pairs_in_place():
    _rotary(interleaved=True, in_place=True)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
