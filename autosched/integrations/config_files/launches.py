"""Small launches of a configuration's kernel that cover all cases of large launches: partial tiles and every loop.

The results of these launches apply to all sizes that are multiples of 16, because Triton compiles the same code for all
of them. Sizes of real layers are multiples of 16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import triton.language as tl

from autosched.integrations.config_files.file_names import FileName

TYPES = ("", "bf16", "bfloat16", "float16", "fp8_w8a8", "int8_w8a8", "int8_w8a16")
_TOP_K = 2
_MOST_STAGES = 4  # maximum num_stages; the number of loop iterations to emulate grows with num_stages


class NoSuchKernel(ValueError):
    """No kernel is known for the file's type, or the known kernel has unknown parameters. The message is one line."""


@dataclass(frozen=True, eq=False)
class SmallLaunch:
    """A launch: ``arguments`` by parameter, the output ``out``, ``expected`` float64 values, and error ``bound``."""

    grid: tuple[int, int, int]
    arguments: Mapping[str, Any]
    out: torch.Tensor
    expected: torch.Tensor
    bound: torch.Tensor


@dataclass(frozen=True)
class _Operands:
    """Operands of a launch, both in their storage types and as float64 values.

    ``a`` has shape (rows, k), and ``b`` has shape (experts, n, k). ``values`` returns ``a`` and ``b`` in float64, with
    ``b`` of shape (experts, k, n).
    """

    a: torch.Tensor
    b: torch.Tensor
    a_scale: torch.Tensor | None
    b_scale: torch.Tensor | None
    values: Callable[[], tuple[torch.Tensor, torch.Tensor]]


def small_launch(parameters: Sequence[str], name: FileName, config: Mapping[str, int], clamped: bool) -> SmallLaunch:
    """Return a launch that is small enough to be emulated.

    Args:
        parameters: Names of the kernel's parameters, which depend on the version.
        name: Parsed file name.
        config: The configuration.
        clamped: If True, BLOCK_SIZE_K is limited to the number of columns that share a scale, as in the package's code.

    Returns:
        Grid, arguments, and the expected output with its bound.

    Raises:
        NoSuchKernel: The file's type has no known kernel.
    """
    if name.dtype not in TYPES:
        raise NoSuchKernel(f"unknown dtype={name.dtype}: use one of {', '.join(t for t in TYPES if t)}")
    tiles = dict(config)
    if clamped and name.block_shape:
        tiles["BLOCK_SIZE_K"] = min(tiles["BLOCK_SIZE_K"], *name.block_shape)
    return (_moe if name.is_moe else _matmul)(parameters, name, tiles)


def _sizes(name: FileName, tiles: Mapping[str, int]) -> tuple[int, int]:
    """Return N and K. N gives a full and a partial block; K gives first, middle and partial last loop iterations."""
    iterations = min(tiles.get("num_stages", 3), _MOST_STAGES) + 1
    k = iterations * tiles["BLOCK_SIZE_K"] + 16
    return tiles["BLOCK_SIZE_N"] + 16, k


def _moe(parameters: Sequence[str], name: FileName, tiles: dict[str, int]) -> SmallLaunch:
    block_m = tiles["BLOCK_SIZE_M"]
    n, k = _sizes(name, tiles)
    # Rows of each expert: expert 0 has more than one block, expert 1 has one row, expert 2 has none. The last expert
    # belongs to another rank.
    counts = (block_m + 3, 1, 0, 2)
    assignments = sum(counts)
    assignments += assignments % _TOP_K
    tokens = assignments // _TOP_K
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(assignments, generator=generator).tolist()
    rows: list[int] = []
    experts: list[int] = []
    chosen = torch.full((assignments,), -1)
    at = 0
    for expert, count in enumerate(counts):
        own_rows = order[at : at + count] if expert < len(counts) - 1 else order[at:]
        at += count
        blocks = -(-len(own_rows) // block_m)
        rows += own_rows + [assignments] * (blocks * block_m - len(own_rows))
        own = expert if expert < len(counts) - 1 else -1
        experts += [own] * blocks
        chosen[torch.tensor(own_rows, dtype=torch.long)] = own
    padded = len(rows)
    rows += [assignments] * block_m  # add a block of unused entries, which the kernel must skip
    experts += [0]
    data = _operands(name, tokens, k, len(counts) - 1, n, generator)
    out = torch.empty(assignments, n, dtype=_out_type(name))
    weights = torch.rand(assignments, generator=generator) + 0.5
    expected = torch.zeros(assignments, n, dtype=torch.float64)
    bound = torch.zeros(assignments, n, dtype=torch.float64)
    a_value, b_value = data.values()
    for r in range(assignments):
        expert = int(chosen[r])
        if expert >= 0:
            a, b = a_value[r // _TOP_K], b_value[expert]
            expected[r] = weights[r].double() * (a @ b)
            bound[r] = weights[r].double() * (a.abs() @ b.abs())
    routing = _Routing(rows, experts, padded, assignments, _TOP_K, weights)
    blocks = -(-len(rows) // block_m) * -(-n // tiles["BLOCK_SIZE_N"])
    return _launch(parameters, _moe_values(name, tiles, data, routing, out), tiles, blocks, out, expected, bound)


@dataclass(frozen=True)
class _Routing:
    """Output rows by expert (``rows``), padded so that each block has one expert.

    ``padded`` is the number of entries of ``rows`` that the kernel uses, including the padding.
    """

    rows: list[int]
    experts: list[int]
    padded: int
    assignments: int
    top_k: int
    weights: torch.Tensor


def _moe_values(
    name: FileName, tiles: Mapping[str, int], data: _Operands, routing: _Routing, out: torch.Tensor
) -> dict[str, Any]:
    """Return the arguments of the MoE kernel, by parameter name."""
    n, k = data.b.shape[1:]
    where = data.a.device
    block = name.block_shape or (0, 0)
    return {
        "a_ptr": data.a,
        "b_ptr": data.b,
        "c_ptr": out,
        "a_scale_ptr": data.a_scale,
        "b_scale_ptr": data.b_scale,
        "topk_weights_ptr": routing.weights,
        "sorted_token_ids_ptr": torch.tensor(routing.rows, dtype=torch.int32, device=where),
        "expert_ids_ptr": torch.tensor(routing.experts, dtype=torch.int32, device=where),
        "num_tokens_post_padded_ptr": torch.tensor([routing.padded], dtype=torch.int32, device=where),
        "N": n,
        "K": k,
        "EM": len(routing.rows),
        "num_valid_tokens": routing.assignments,
        **_strides("a", data.a, "mk"),
        **_strides("b", data.b.transpose(1, 2), "ekn"),
        **_strides("c", out, "mn"),
        **_scale_strides(data, per_row="asm ask", per_column="bse bsk bsn"),
        "group_n": block[0],
        "group_k": block[1],
        "MUL_ROUTED_WEIGHT": True,
        "top_k": routing.top_k,
        "ROUTER_TOPK": routing.top_k,
        "compute_type": tl.float16 if out.dtype is torch.float16 else tl.bfloat16,
        "use_fp8_w8a8": name.dtype == "fp8_w8a8",
        "use_int8_w8a8": name.dtype == "int8_w8a8",
        "use_int8_w8a16": name.dtype == "int8_w8a16",
        "per_channel_quant": name.per_channel,
        "even_Ks": k % tiles["BLOCK_SIZE_K"] == 0,
        "SPLIT_K": 1,
        **dict.fromkeys(_ABSENT),
        **dict.fromkeys(_OFF, False),
        **dict.fromkeys(_ZERO, 0),
    }


def true_launch(
    parameters: Sequence[str],
    name: FileName,
    tiles: Mapping[str, int],
    tokens_of_experts: Sequence[int],
    top_k: int,
    shape: tuple[int, int],
    device: torch.device | str,
) -> tuple[tuple[int, int, int], dict[str, Any]]:
    """Return grid and arguments of one matmul of a layer at the true size, for timing. Values are random.

    Args:
        parameters: Names of the kernel's parameters.
        name: Parsed file name.
        tiles: The configuration.
        tokens_of_experts: Number of tokens of each expert.
        top_k: Experts per token.
        shape: (columns, depth) of the weights of one expert.
        device: Torch device of the arrays.

    Returns:
        Grid, and arguments by parameter name.

    Raises:
        NoSuchKernel: The file's type has no known kernel.
    """
    n, k = shape
    block_m, assignments = tiles["BLOCK_SIZE_M"], sum(tokens_of_experts)
    rows: list[int] = []
    experts: list[int] = []
    at = 0
    for expert, count in enumerate(tokens_of_experts):
        blocks = -(-count // block_m)
        rows += [*range(at, at + count), *[assignments] * (blocks * block_m - count)]
        experts += [expert] * blocks
        at += count
    generator = torch.Generator(device=device).manual_seed(0)
    with torch.device(device):
        data = _operands(name, -(-assignments // top_k), k, len(tokens_of_experts), n, generator)
        out = torch.zeros(assignments, n, dtype=_out_type(name))
        weights = torch.ones(assignments)
    routing = _Routing(rows, experts, len(rows), assignments, top_k, weights)
    arguments = _arguments(parameters, _moe_values(name, tiles, data, routing, out), tiles)
    return (len(experts) * -(-n // tiles["BLOCK_SIZE_N"]), 1, 1), arguments


def _out_type(name: FileName) -> torch.dtype:
    return torch.float16 if name.dtype == "float16" else torch.bfloat16


def _matmul(parameters: Sequence[str], name: FileName, tiles: dict[str, int]) -> SmallLaunch:
    n, k = _sizes(name, tiles)
    m = tiles["BLOCK_SIZE_M"] + 16
    if not name.block_shape or name.dtype not in ("fp8_w8a8", "int8_w8a8"):
        raise NoSuchKernel(f"no matmul with dtype={name.dtype or 'none'} and without block_shape is supported")
    generator = torch.Generator().manual_seed(0)
    data = _operands(name, m, k, 1, n, generator)
    assert data.a_scale is not None and data.b_scale is not None
    out = torch.empty(m, n, dtype=torch.bfloat16)
    values = {
        "A": data.a,
        "B": data.b,
        "C": out,
        "As": data.a_scale,
        "Bs": data.b_scale,
        "M": m,
        "N": n,
        "K": k,
        "group_n": name.block_shape[0],
        "group_k": name.block_shape[1],
        **_strides("a", data.a, "mk"),
        **_strides("b", data.b[0].t(), "kn"),
        **_strides("c", out, "mn"),
        **_strides("As_", data.a_scale, "mk"),
        **_strides("Bs_", data.b_scale[0].t(), "kn"),
        "needs_masking": bool(k % tiles["BLOCK_SIZE_K"]),
        "SWAP_AB": False,
        "SPLIT_K": 1,
    }
    a_value, b_value = data.values()
    expected = a_value @ b_value[0]
    bound = a_value.abs() @ b_value[0].abs()
    blocks = -(-m // tiles["BLOCK_SIZE_M"]) * -(-n // tiles["BLOCK_SIZE_N"])
    return _launch(parameters, values, tiles, blocks, out, expected, bound)


# Parameters of the packages' kernels. For a plain layer, their arguments are None, False and 0, respectively.
_ABSENT = ("b_bias_ptr", "bias_ptr", "a_desc", "b_desc", "add_mask_ptr")
_OFF = (
    *("naive_block_assignment", "HAS_BIAS", "SWAP_AB", "USE_TD", "c_sorted", "swap_ab", "FUSE_ADD_TO_OUTPUT"),
    *("MASK_OUTPUT", "FUSE_SUM_ALL_REDUCE", "FUSE_SWIGLU", "USE_GDC", "GDC_EARLY", "filter_expert"),
)
_ZERO = ("stride_bbe", "stride_bbn", "stride_bias_e", "stride_bias_n")


def _launch(
    parameters: Sequence[str],
    values: Mapping[str, Any],
    tiles: Mapping[str, int],
    blocks: int,
    out: torch.Tensor,
    expected: torch.Tensor,
    magnitude: torch.Tensor,
) -> SmallLaunch:
    relative = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11}[out.dtype]
    # Allowed error: half a unit in the last place of the output, plus the error of sums. The error of sums covers f32
    # arithmetic, and tensor cores, which sum products of 8-bit floats with fewer bits.
    bound = relative * expected.abs() + 2.0**-12 * magnitude + 1e-6
    return SmallLaunch((blocks, 1, 1), _arguments(parameters, values, tiles), out, expected, bound)


def _arguments(parameters: Sequence[str], values: Mapping[str, Any], tiles: Mapping[str, int]) -> dict[str, Any]:
    from autosched.integrations.config_files.files import LAUNCH_OPTIONS

    known = {**values, **{key: value for key, value in tiles.items() if key in parameters}}
    unknown = [p for p in parameters if p not in known and p not in _DEFAULTED]
    if unknown:
        raise NoSuchKernel(f"the kernel has an unknown parameter: {' and '.join(unknown)}")
    arguments = {p: known[p] for p in parameters if p in known}
    return arguments | {key: tiles[key] for key in LAUNCH_OPTIONS if key in tiles}


_DEFAULTED = ("A_OUTPUT_SLICES", "A_OUTPUT_SLICE_WIDTH", "A_OUTPUT_SLICE_K")


def _operands(name: FileName, rows: int, k: int, experts: int, n: int, generator: torch.Generator) -> _Operands:
    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    a, b = noise(rows, k), noise(experts, n, k)
    if name.dtype in ("", "bf16", "bfloat16", "float16"):
        kind = torch.float16 if name.dtype == "float16" else torch.bfloat16
        a, b = a.to(kind), b.to(kind)
        return _Operands(a, b, None, None, lambda: (a.double(), b.double().transpose(1, 2)))
    is_integer = name.dtype.startswith("int8")
    kind = torch.int8 if is_integer else torch.float8_e4m3fn
    spread = 20.0 if is_integer else 1.0

    def eight(x: torch.Tensor) -> torch.Tensor:
        return (x * spread).round().clamp(-127, 127).to(kind) if is_integer else x.to(kind)

    b = eight(b)
    if name.dtype == "int8_w8a16":
        a = a.to(torch.bfloat16)
        scale = torch.rand(experts, n, generator=generator) + 0.5
        return _Operands(a, b, None, scale, lambda: (a.double(), _scaled(b, scale[:, :, None])))
    a = eight(a)
    if name.block_shape:
        group_n, group_k = name.block_shape
        a_scale = torch.rand(rows, -(-k // group_k), generator=generator) + 0.5
        b_scale = torch.rand(experts, -(-n // group_n), -(-k // group_k), generator=generator) + 0.5
        along, across = a_scale, b_scale

        def values() -> tuple[torch.Tensor, torch.Tensor]:
            wide = across.repeat_interleave(group_n, 1).repeat_interleave(group_k, 2)[:, :n, :k]
            return a.double() * along.double().repeat_interleave(group_k, 1)[:, :k], _scaled(b, wide)

        return _Operands(a, b, a_scale, b_scale, values)
    if name.per_channel:
        a_scale = torch.rand(rows, 1, generator=generator) + 0.5
        b_scale = torch.rand(experts, n, generator=generator) + 0.5
        return _Operands(
            a, b, a_scale, b_scale, lambda: (a.double() * a_scale.double(), _scaled(b, b_scale[:, :, None]))
        )
    a_scale = torch.rand(1, generator=generator) + 0.5
    b_scale = torch.rand(experts, generator=generator) + 0.5
    return _Operands(
        a, b, a_scale, b_scale, lambda: (a.double() * a_scale.double(), _scaled(b, b_scale[:, None, None]))
    )


def _scaled(b: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (b.double() * scale.double()).transpose(1, 2)


def _strides(prefix: str, tensor: torch.Tensor, axes: str) -> dict[str, int]:
    return {f"stride_{prefix}{axis}": tensor.stride(k) for k, axis in enumerate(axes)}


def _scale_strides(data: _Operands, per_row: str, per_column: str) -> dict[str, int]:
    """Return the strides of the scales as the packages pass them: 0 for an axis that the scales do not have."""
    a, b = data.a_scale, data.b_scale
    row, row_k = per_row.split()
    expert, b_k, b_n = per_column.split()
    two_axes = a is not None and a.dim() == 2
    return {
        f"stride_{row}": a.stride(0) if a is not None and two_axes else 0,
        f"stride_{row_k}": a.stride(1) if a is not None and two_axes else 0,
        f"stride_{expert}": b.stride(0) if b is not None and b.dim() >= 2 else 0,
        f"stride_{b_k}": b.stride(2) if b is not None and b.dim() == 3 else 0,
        f"stride_{b_n}": b.stride(1) if b is not None and b.dim() >= 2 else 0,
    }


def parameters_of(function: Any) -> tuple[str, ...]:
    """Return the parameters of a Triton function, in their order."""
    return tuple(function.arg_names)
