"""Operators of FlagGems against torch's own on the host."""

import os
import sys
import tempfile

import first_configuration  # noqa: F401

# isort: split
import torch
import torch.nn.functional as F
import triton
from host_comparison import randn

# Its import asks nvidia-smi for the vendor, and keeps configurations and the code that it generates in a folder.
os.environ |= {
    "GEMS_VENDOR": "nvidia",
    "FLAGGEMS_CACHE_DIR": tempfile.mkdtemp(),
    "FLAGGEMS_ENABLE_DISK_CACHE": "0",
}

_MADE = triton.runtime.Autotuner.__init__


def _with_the_first(self, fn, names, configs, *others, **named):
    _MADE(self, fn, names, configs[:1], *others, **named)


triton.runtime.Autotuner.__init__ = _with_the_first  # its own autotuner is a subclass

import flag_gems  # noqa: E402


def _integers(most, *shape, seed=0):
    return torch.randint(most, shape, generator=torch.Generator().manual_seed(seed))


def _moved(x):
    return x.to("cuda") if isinstance(x, torch.Tensor) else x


def _same(ours, theirs, *inputs, tolerance=1e-5, **named):
    """Compare an operator on the GPU with torch's on the host."""
    expected = theirs(*inputs, **named)
    found = ours(*[[_moved(t) for t in x] if isinstance(x, list) else _moved(x) for x in inputs], **named)
    if isinstance(expected, torch.Tensor):
        expected, found = (expected,), (found,)
    for e, f in zip(expected, found, strict=True):
        torch.testing.assert_close(f.to("cpu"), e, rtol=tolerance, atol=tolerance)


def addition_with_broadcast():
    _same(flag_gems.add, torch.add, randn(5, 1, 70), randn(3, 70, seed=1), alpha=2)


def gelu():
    _same(flag_gems.gelu, F.gelu, randn(7, 130))


def where():
    _same(flag_gems.where_self, torch.where, randn(7, 130) > 0, randn(7, 130, seed=1), randn(7, 130, seed=2))


def division_rounded_down():
    _same(flag_gems.floor_divide, torch.floor_divide, _integers(90, 300) - 45, _integers(9, 300, seed=1) + 1)


def sum_of_all():
    _same(flag_gems.sum, torch.sum, randn(3000), tolerance=1e-4)


def sum_of_columns():
    _same(flag_gems.sum_dim, torch.sum, randn(9, 200, 5), [1])


def largest_of_rows():
    _same(flag_gems.max_dim, torch.max, randn(9, 300), 1)


def place_of_the_largest():
    _same(flag_gems.argmax, torch.argmax, randn(9, 300), 1)


def product():
    _same(flag_gems.prod_dim, torch.prod, randn(9, 50), 1)


def any_of_all():
    _same(flag_gems.any, torch.any, _integers(2, 3000) > 1)


def cumulative_sum():
    _same(flag_gems.cumsum, torch.cumsum, randn(5, 700), 1, tolerance=1e-4)


def cumulative_maximum():
    _same(flag_gems.cummax, torch.cummax, randn(5, 300), 1)


def softmax():
    _same(flag_gems.softmax, torch.softmax, randn(9, 300), -1)


def softmax_of_columns():
    _same(flag_gems.softmax, torch.softmax, randn(3, 40, 33), 1)


def log_softmax():
    _same(flag_gems.log_softmax, torch.log_softmax, randn(9, 300), -1)


def layer_norm():
    x, w, b = randn(9, 300), randn(300, seed=1), randn(300, seed=2)
    _same(lambda *all: flag_gems.layer_norm(*all)[0], F.layer_norm, x, [300], w, b, 1e-5, tolerance=1e-4)


def group_norm():
    x, w, b = randn(2, 6, 5, 7), randn(6, seed=1), randn(6, seed=2)
    _same(flag_gems.group_norm, torch.native_group_norm, x, w, b, 2, 6, 35, 3, 1e-5, tolerance=1e-4)


def rms_norm():
    _same(
        lambda x, w: flag_gems.rms_norm(x, [300], w),
        lambda x, w: F.rms_norm(x, (300,), w, 1e-5),
        randn(9, 300),
        randn(300, seed=1),
    )


def variance_and_mean():
    _same(flag_gems.var_mean, torch.var_mean, randn(9, 300), [1])


def norm_of_vectors():
    _same(flag_gems.vector_norm, torch.linalg.vector_norm, randn(9, 300), 2, [1])


def matrix_product():
    _same(flag_gems.mm, torch.mm, randn(70, 90), randn(90, 50, seed=1), tolerance=2e-2)


def products_of_batches():
    _same(flag_gems.bmm, torch.bmm, randn(3, 40, 33), randn(3, 33, 20, seed=1), tolerance=2e-2)


def matrix_by_vector():
    _same(flag_gems.mv, torch.mv, randn(40, 70), randn(70, seed=1), tolerance=1e-4)


def outer_product():
    _same(flag_gems.outer, torch.outer, randn(40), randn(70, seed=1))


def concatenation():
    _same(flag_gems.cat, torch.cat, [randn(5, 30), randn(7, 30, seed=1)])


def flipped():
    _same(flag_gems.flip, torch.flip, randn(5, 30, 3), [0, 2])


def upper_triangle():
    _same(flag_gems.triu, torch.triu, randn(40, 30))


def rows_of_an_index():
    _same(flag_gems.index_select, torch.index_select, randn(40, 30), 0, _integers(40, 17))


def gathered():
    _same(flag_gems.gather, torch.gather, randn(40, 30), 1, _integers(30, 40, 9))


def scattered():
    index = torch.stack([torch.randperm(30, generator=torch.Generator().manual_seed(n))[:9] for n in range(40)])
    _same(flag_gems.scatter, torch.scatter, randn(40, 30), 1, index, randn(40, 9, seed=1))


def embedding():
    _same(flag_gems.embedding, lambda w, at: F.embedding(at, w), randn(40, 30), _integers(40, 4, 5))


def masked_selection():
    x = randn(9, 130)
    _same(flag_gems.masked_select, torch.masked_select, x, x > 0)


def places_of_nonzero():
    _same(flag_gems.nonzero, torch.nonzero, _integers(2, 9, 130))


def largest_few():
    _same(flag_gems.topk, torch.topk, randn(5, 200), 7)


def sorted_rows():
    _same(flag_gems.sort, torch.sort, randn(3, 200))


def unique_values():
    found = flag_gems._unique2(_integers(50, 400).to("cuda"), sorted=True)[0]
    torch.testing.assert_close(found.to("cpu"), torch.unique(_integers(50, 400)))


def convolution():
    _same(flag_gems.conv2d, F.conv2d, randn(1, 3, 9, 9), randn(4, 3, 3, 3, seed=1), tolerance=2e-2)


def pooled_maximum():
    _same(
        lambda x: flag_gems.max_pool2d_with_indices(x, 2),
        lambda x: F.max_pool2d(x, 2, return_indices=True),
        randn(1, 3, 8, 8),
    )


def nearest_of_images():
    _same(lambda x: flag_gems.upsample_nearest2d(x, (9, 12)), lambda x: F.interpolate(x, (9, 12)), randn(1, 2, 5, 6))


def negative_log_likelihood():
    x, t = torch.log_softmax(randn(9, 30), 1), _integers(30, 9)
    _same(lambda x, t: flag_gems.nll_loss_forward(x, t)[0], F.nll_loss, x, t)


def rotary_embedding():
    q, k = randn(1, 5, 4, 16), randn(1, 5, 2, 16, seed=1)
    angle = torch.arange(5)[:, None] * 10000.0 ** (-torch.arange(8) / 8)
    cos, sin = torch.cos(angle), torch.sin(angle)

    def turned(x):
        a, b = x.chunk(2, -1)
        return torch.cat((a * cos[:, None] - b * sin[:, None], b * cos[:, None] + a * sin[:, None]), -1)

    _same(flag_gems.apply_rotary_pos_emb, lambda q, k, cos, sin: (turned(q), turned(k)), q, k, cos, sin)


def fused_add_and_rms_norm():
    x, r, w = randn(9, 300), randn(9, 300, seed=1), randn(300, seed=2)
    _same(
        lambda x, r, w: flag_gems.fused_add_rms_norm(x, r, [300], w, 1e-5),
        lambda x, r, w: (F.rms_norm(x + r, (300,), w, 1e-5), x + r),
        x, r, w,
    )  # fmt: skip


def gated_silu():
    _same(flag_gems.silu_and_mul, lambda x, y: F.silu(x) * y, randn(9, 300), randn(9, 300, seed=1))


def softmax_of_the_largest_few():
    x = randn(9, 16)
    weights, places, rows = (
        torch.empty(9, 2, dtype=d, device="cuda") for d in (torch.float32, torch.int32, torch.int32)
    )
    flag_gems.topk_softmax(weights, places, rows, x.to("cuda"))
    expected, at = torch.softmax(x, -1).topk(2)
    torch.testing.assert_close(weights.to("cpu"), expected)
    torch.testing.assert_close(places.to("cpu"), at.int())


def attention():
    q, k, v = (randn(1, 2, 64, 64, seed=n).half() for n in range(3))
    _same(flag_gems.scaled_dot_product_attention, F.scaled_dot_product_attention, q, k, v, tolerance=1e-2)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
