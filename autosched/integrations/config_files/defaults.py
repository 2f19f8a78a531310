"""Default configurations that vLLM and SGLang use for MoE layers without a configuration file.

The values are transcribed from ``get_default_config`` of each package, for NVIDIA's GPUs, with the batch-invariant mode
off:

- vLLM since 0.17 (vllm-project/vllm#34846), ``vllm/model_executor/layers/fused_moe/fused_moe.py``
- SGLang, ``python/sglang/srt/layers/moe/fused_moe_triton/fused_moe_triton_config.py``

An omitted option has Triton's default: 4 warps, 3 stages.
"""

from __future__ import annotations

from collections.abc import Sequence

from autosched.integrations.config_files.file_names import Format
from autosched.integrations.config_files.files import Config
from autosched.integrations.config_files.layer import Layer

_NAMES = ("BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "num_warps", "num_stages")
# Configurations by maximum number of rows of the batch; 0 stands for all larger batches.
_VLLM = (
    (32, (16, 64, 128, 4, 4)),
    (64, (32, 64, 128, 4, 3)),
    (96, (32, 128, 64, 4, 3)),
    (128, (64, 128, 64, 4, 3)),
    (512, (64, 128, 64, 8, 3)),
    (0, (128, 128, 64, 8, 3)),
)
_VLLM_FP8_DEPTH = 128
# (limit, group): GROUP_SIZE_M is ``group`` if there are more than ``limit`` tokens per expert, else 1
_VLLM_GROUP = (128, 16)
# Configurations for batches with at most one row per expert, and for larger batches. The last value is GROUP_SIZE_M.
_SGLANG = ((16, 32, 64, None, None, 1), (64, 64, 32, None, None, 8))
_SGLANG_FP8 = ((64, 128, 128, 4, 4, 1), (128, 256, 128, 8, 4, 32))


def default_config(layer: Layer, rows: int, format: Format) -> Config | None:
    """Return the configuration that the package uses for a batch of ``rows`` if there is no configuration file.

    Args:
        layer: Experts, sizes and types.
        rows: Tokens of the batch.
        format: The package.

    Returns:
        The configuration. None for 8-bit integer weights with block scales, because their tiles also depend on other
        settings.
    """
    scaled_fp8 = layer.dtype == "fp8_w8a8" and layer.block_shape is not None
    if layer.dtype == "int8_w8a16" and layer.block_shape is not None:
        return None
    if scaled_fp8:
        return _scaled(layer, rows, format)
    if format == "sglang":
        *tile, group = (_SGLANG_FP8 if layer.dtype == "fp8_w8a8" else _SGLANG)[rows > layer.experts]
        return _config(tile, group)
    tile = list(next(values for most, values in _VLLM if rows <= most or not most))
    if layer.dtype == "fp8_w8a8":
        tile[_NAMES.index("BLOCK_SIZE_K")] = _VLLM_FP8_DEPTH
    most, group = _VLLM_GROUP
    return _config(tile, group if rows // layer.experts > most else 1)


def _scaled(layer: Layer, rows: int, format: Format) -> Config:
    """Return the configuration for 8-bit floats with block scales. Tiles have the size of a scale block."""
    assert layer.block_shape is not None
    few = format == "vllm"
    return _config(
        (16 if few and rows <= 64 else 64, *layer.block_shape, 4, 3),
        1 if few and rows <= 16 else 32,
    )


def _config(tile: Sequence[int | None], group: int | None) -> Config:
    values = {**dict(zip(_NAMES, tile, strict=True)), "GROUP_SIZE_M": group}
    return tuple(sorted((name, value) for name, value in values.items() if value is not None))
