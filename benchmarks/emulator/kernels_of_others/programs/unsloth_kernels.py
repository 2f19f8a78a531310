"""Kernels of unsloth, forward and backward, against torch: its files without the packages that its own import needs."""

import contextlib
import sys
import types
from importlib.util import find_spec

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from packaging.version import Version
from triton.language.extra import libdevice

ROWS, COLUMNS = 6, 200


def _settings(n):
    block = triton.next_power_of_2(n)
    return block, 32 if block >= 32768 else 16 if block >= 8192 else 8 if block >= 2048 else 4


class _Anything(types.ModuleType):
    """A package of which only names are asked."""

    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (torch.nn.Module,), {})


def _stand_in(name, path=(), **names):
    module = sys.modules[name] = types.ModuleType(name)
    module.__path__ = list(path)
    module.__dict__.update(names)


_FOLDER = find_spec("unsloth").submodule_search_locations[0]
_stand_in("unsloth", [_FOLDER])
_stand_in("unsloth.device_type", DEVICE_COUNT=1, DEVICE_TYPE="cuda")
_stand_in("unsloth.kernels", [f"{_FOLDER}/kernels"])
_stand_in(
    "unsloth.kernels.utils",
    MAX_FUSED_SIZE=65536,
    calculate_settings=_settings,
    is_cdna=lambda: False,
    torch_device_stream=lambda device: None,
    torch_gpu_device=lambda device: contextlib.nullcontext(),
    triton_cast=tl.cast,
    triton_tanh=libdevice.tanh,
)
for _name in (
    "transformers", "transformers.models", "transformers.models.llama", "transformers.models.llama.modeling_llama",
    "transformers.models.mllama", "transformers.models.mllama.modeling_mllama", "unsloth_zoo",
    "unsloth_zoo.loss_utils", "unsloth_zoo.patching_utils", "unsloth_zoo.utils",
):  # fmt: skip
    sys.modules[_name] = _Anything(_name)
sys.modules["unsloth_zoo.utils"].Version = lambda text: Version(str(text))

from unsloth.kernels import cross_entropy_loss, geglu, layernorm, rms_layernorm, rope_embedding, swiglu  # noqa: E402


def _randn(*shape, requires_grad=True, seed=0):
    made = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return made.to("cuda").requires_grad_(requires_grad)


def _same(ours, theirs, *inputs, tolerance=2e-5):
    copies = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
    expected, found = theirs(*copies), ours(*inputs)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=tolerance)
    upstream = torch.randn(expected.shape, generator=torch.Generator().manual_seed(9)).to(expected.device)
    expected.backward(upstream)
    found.backward(upstream.clone())
    for x, copy in zip(inputs, copies, strict=True):
        if x.requires_grad:
            torch.testing.assert_close(x.grad, copy.grad, rtol=1e-4, atol=10 * tolerance)


def _rms(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def rms_norm():
    w = _randn(COLUMNS, requires_grad=False, seed=1)
    _same(
        lambda x: rms_layernorm.Fast_RMS_Layernorm.apply(x, w, 1e-6, False), lambda x: _rms(x, w), _randn(ROWS, COLUMNS)
    )


def gemma_rms_norm():
    w = _randn(COLUMNS, requires_grad=False, seed=1)
    _same(
        lambda x: rms_layernorm.Fast_RMS_Layernorm.apply(x, w, 1e-6, True),
        lambda x: _rms(x, 1 + w),
        _randn(ROWS, COLUMNS),
    )


def layer_norm():
    w, b = _randn(COLUMNS, requires_grad=False, seed=1), _randn(COLUMNS, requires_grad=False, seed=2)
    _same(
        lambda x: layernorm.Fast_Layernorm.apply(x, w, b, 1e-6),
        lambda x: F.layer_norm(x, (COLUMNS,), w, b, 1e-6),
        _randn(ROWS, COLUMNS),
    )


def _rotated(q, cos, sin):
    """Of (..., sequence, dimension)."""
    half = q.shape[-1] // 2
    return q * cos + torch.cat((-q[..., half:], q[..., :half]), -1) * sin


def _angles(length, dimension):
    angle = torch.arange(length)[:, None] * 10000.0 ** (-torch.arange(dimension // 2) / (dimension // 2))
    return torch.cos(angle).repeat(1, 2).to("cuda"), torch.sin(angle).repeat(1, 2).to("cuda")


def rotary_embedding():
    cos, sin = _angles(5, 16)
    q = _randn(2, 5, 6, 16, requires_grad=False)
    expected = _rotated(q.transpose(1, 2), cos, sin).transpose(1, 2)
    torch.testing.assert_close(rope_embedding.Fast_RoPE_Embedding.apply(q, cos, sin), expected, rtol=1e-4, atol=2e-5)


def rotary_embedding_of_both():
    cos, sin = _angles(5, 16)
    q, k = _randn(2, 4, 5, 16, requires_grad=False), _randn(2, 2, 5, 16, requires_grad=False, seed=1)
    expected = _rotated(q, cos, sin), _rotated(k, cos, sin)
    found = rope_embedding.Fast_RoPE_Embedding_QK.apply(q, k, cos, sin, None)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-5)


def _gated(forward, backward, reference):
    e, g = _randn(2, 3, 100, seed=1), _randn(2, 3, 100, seed=2)
    expected = reference(e, g)
    torch.testing.assert_close(forward(e.detach(), g.detach()), expected, rtol=1e-4, atol=2e-5)
    upstream = _randn(2, 3, 100, requires_grad=False, seed=3)
    expected.backward(upstream)
    flat = [x.detach().clone().reshape(6, 100) for x in (upstream, e, g)]
    _, of_up, of_gate = backward(*flat)
    torch.testing.assert_close(
        of_up, (upstream * reference(e, torch.ones_like(g))).detach().reshape(6, 100), rtol=1e-4, atol=2e-5
    )
    torch.testing.assert_close(of_gate, e.grad.reshape(6, 100), rtol=1e-4, atol=2e-4)


def gated_silu():
    _gated(swiglu.swiglu_fg_kernel, swiglu.swiglu_DWf_DW_dfg_kernel, lambda e, g: F.silu(e) * g)


def gated_gelu():
    _gated(geglu.geglu_exact_forward_kernel, geglu.geglu_exact_backward_kernel, lambda e, g: F.gelu(e) * g)


def gated_gelu_by_tanh():
    _gated(
        geglu.geglu_approx_forward_kernel,
        geglu.geglu_approx_backward_kernel,
        lambda e, g: F.gelu(e, approximate="tanh") * g,
    )


def _cross_entropy(rows, vocabulary):
    labels = torch.arange(rows, device="cuda") * 7 % vocabulary
    labels[1] = -100
    _same(
        lambda x: cross_entropy_loss.Fast_CrossEntropyLoss.apply(x * 1, labels, 0, 0),
        lambda x: F.cross_entropy(x, labels, reduction="none"),
        _randn(rows, vocabulary),
    )


def cross_entropy():
    _cross_entropy(4, 300)


def cross_entropy_in_chunks():
    _cross_entropy(2, 66000)


def cross_entropy_of_capped_logits():
    labels = torch.tensor([3, 0, 299, 20], device="cuda")
    _same(
        lambda x: cross_entropy_loss.Fast_CrossEntropyLoss.apply(x * 1, labels, 30, 0),
        lambda x: F.cross_entropy(30 * torch.tanh(x / 30), labels, reduction="none"),
        _randn(4, 300),
    )


if __name__ == "__main__":
    globals()[sys.argv[1]]()
