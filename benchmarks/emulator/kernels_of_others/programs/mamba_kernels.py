"""Triton kernels of mamba, forward and backward, against its own definitions in torch."""

import os
import sys
from functools import partial
from importlib.util import find_spec, module_from_spec

import first_configuration  # noqa: F401

# isort: split
import torch
import torch.nn.functional as F
from host_comparison import randn, same

os.environ["MAMBA_DETERMINISTIC"] = "1"  # the smallest of each kernel's configurations

# Its own import needs its compiled library.
_spec = find_spec("mamba_ssm")
sys.modules["mamba_ssm"] = module_from_spec(_spec)

from mamba_ssm.ops.triton import layer_norm as norms  # noqa: E402
from mamba_ssm.ops.triton import layernorm_gated, ssd_chunk_scan, ssd_chunk_state, ssd_state_passing  # noqa: E402
from mamba_ssm.ops.triton.k_activations import _swiglu_bwd, _swiglu_fwd  # noqa: E402
from mamba_ssm.ops.triton.selective_state_update import (  # noqa: E402
    selective_state_update,
    selective_state_update_ref,
)
from mamba_ssm.ops.triton.ssd_combined import mamba_chunk_scan_combined, ssd_chunk_scan_combined_ref  # noqa: E402

BATCH, LENGTH, HEADS, WIDTH, STATES, CHUNK = 1, 64, 2, 16, 16, 32


_same = partial(same, tolerance=1e-3)


def _inputs():
    """Return x, time steps, rates, B and C."""
    x = randn(BATCH, LENGTH, HEADS, WIDTH)
    steps = F.softplus(randn(BATCH, LENGTH, HEADS, seed=1) - 2)
    return (
        x, steps, -torch.exp(randn(HEADS, seed=2)), randn(BATCH, LENGTH, 1, STATES, seed=3),
        randn(BATCH, LENGTH, 1, STATES, seed=4),
    )  # fmt: skip


def layer_norm():
    _same(
        lambda x, r, w, b: norms.layer_norm_fn(x, w, b, residual=r),
        lambda x, r, w, b: norms.layer_norm_ref(x, w, b, residual=r),
        randn(6, 200), randn(6, 200, seed=3), randn(200, seed=1), randn(200, seed=2),
    )  # fmt: skip


def rms_norm():
    _same(
        lambda x, w: norms.rms_norm_fn(x, w, None),
        lambda x, w: norms.rms_norm_ref(x, w, None),
        randn(6, 300), randn(300, seed=1),
    )  # fmt: skip


def rms_norm_of_a_sum():
    _same(
        lambda x, r, w: norms.rms_norm_fn(x, w, None, residual=r),
        lambda x, r, w: norms.rms_norm_ref(x, w, None, residual=r),
        randn(6, 300), randn(6, 300, seed=2), randn(300, seed=1),
    )  # fmt: skip


def _gated(before):
    _same(
        lambda x, z, w: layernorm_gated.rmsnorm_fn(x, w, None, z=z, group_size=64, norm_before_gate=before),
        lambda x, z, w: layernorm_gated.rms_norm_ref(x, w, None, z=z, group_size=64, norm_before_gate=before),
        randn(6, 128), randn(6, 128, seed=1), randn(128, seed=2),
    )  # fmt: skip


def gated_rms_norm():
    _gated(before=False)


def rms_norm_before_the_gate():
    _gated(before=True)


def gated_silu():
    both = randn(6, 200).requires_grad_()
    x, y = both.chunk(2, -1)
    expected, upstream = F.silu(x) * y, randn(6, 100, seed=9)
    expected.backward(upstream)
    on_gpu = both.detach().to("cuda")
    torch.testing.assert_close(_swiglu_fwd(on_gpu).to("cpu"), expected.detach(), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(_swiglu_bwd(on_gpu, upstream.to("cuda")).to("cpu"), both.grad, rtol=1e-4, atol=1e-5)


def state_update():
    state, x, step = randn(2, 40, STATES), randn(2, 40, seed=1), randn(2, 40, seed=2)
    rates, b, c = -torch.rand(40, STATES), randn(2, STATES, seed=3), randn(2, STATES, seed=4)
    named = {"D": randn(40, seed=5), "z": randn(2, 40, seed=6), "dt_bias": randn(40, seed=7)}
    on_gpu = [t.clone().to("cuda") for t in (state, x, step, rates, b, c)]
    expected = selective_state_update_ref(state, x, step, rates, b, c, **named, dt_softplus=True)
    found = selective_state_update(*on_gpu, **{n: t.to("cuda") for n, t in named.items()}, dt_softplus=True)
    torch.testing.assert_close(found.to("cpu"), expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(on_gpu[0].to("cpu"), state, rtol=1e-4, atol=1e-4)


def _by_chunks(steps, rates):
    steps = steps.reshape(BATCH, LENGTH // CHUNK, CHUNK, HEADS).permute(0, 3, 1, 2).contiguous()
    return steps, torch.cumsum(steps * rates[:, None, None], -1)


def states_of_chunks():
    x, steps, rates, b, _ = _inputs()
    _same(ssd_chunk_state.chunk_state, ssd_chunk_state.chunk_state_ref, b, x, *_by_chunks(steps, rates), tolerance=5e-3)


def states_passed_on():
    states = randn(BATCH, LENGTH // CHUNK, HEADS, WIDTH * STATES)
    decay = -torch.rand(BATCH, HEADS, LENGTH // CHUNK, generator=torch.Generator().manual_seed(1))
    _same(
        lambda s, d: ssd_state_passing.state_passing(s, d)[0],
        lambda s, d: ssd_state_passing.state_passing_ref(s, d)[0],
        states, decay,
    )  # fmt: skip


def scan_of_chunks():
    x, steps, rates, b, c = _inputs()
    states = randn(BATCH, LENGTH // CHUNK, HEADS, WIDTH, STATES, seed=5)
    _same(
        lambda b, c, x, *o: ssd_chunk_scan.chunk_scan(b, c, x, *o),
        lambda b, c, x, *o: ssd_chunk_scan.chunk_scan_ref(b, c, x, *o),
        b, c, x, *_by_chunks(steps, rates), states, tolerance=1e-2,
    )  # fmt: skip


def whole_scan():
    _same(
        lambda *i: mamba_chunk_scan_combined(*i, CHUNK),
        lambda *i: ssd_chunk_scan_combined_ref(*i, CHUNK),
        *_inputs(), tolerance=1e-2,
    )  # fmt: skip


if __name__ == "__main__":
    globals()[sys.argv[1]]()
