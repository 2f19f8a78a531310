"""Time a configuration on a GPU, with the two matmuls of a layer at their true sizes."""

from __future__ import annotations

from functools import partial
from typing import Any

import triton

from autosched.integrations.config_files.file_names import Format
from autosched.integrations.config_files.installed import kernel_for
from autosched.integrations.config_files.launches import parameters_of, true_launch
from autosched.integrations.config_files.layer import Layer
from autosched.integrations.config_files.tuning.layer_counts import tokens_of_experts
from autosched.integrations.config_files.tuning.tune_layer import Measure


def gpu_measure(format: Format) -> Measure:
    """Return a function that measures the median time of a configuration on Triton's device, in seconds.

    The function uses ``triton.testing.do_bench``, which clears the L2 cache between repeats.
    """
    kernel = kernel_for(format, moe=True).function
    parameters = parameters_of(kernel)

    def measure(layer: Layer, rows: int, config: dict[str, int]) -> float:
        name, tokens = layer.file_name("this GPU"), tokens_of_experts(layer.experts, layer.top_k, rows)
        tiles = dict(config)
        if format == "vllm" and layer.block_shape:
            tiles["BLOCK_SIZE_K"] = min(tiles["BLOCK_SIZE_K"], *layer.block_shape)
        milliseconds = 0.0
        for shape in layer.matmuls:
            grid, arguments = true_launch(parameters, name, tiles, tokens, layer.top_k, shape, "cuda")
            milliseconds += float(
                triton.testing.do_bench(partial(_launch, kernel, grid, arguments), return_mode="median")
            )
        return milliseconds / 1e3

    return measure


def _launch(kernel: Any, grid: tuple[int, int, int], arguments: dict[str, Any]) -> None:
    kernel[grid](**arguments)
