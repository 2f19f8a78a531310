"""Estimate the times of a layer's two matmuls by emulating the compiled kernels.

A kernel is compiled for the device. One block of its launch runs in the emulator, at the layer's true depth and with
the average number of rows per block. One block is enough because all blocks do the same work, regardless of expert and
columns. The number of blocks and the DRAM traffic of the launch are computed from sizes (``layer_counts.py``).
``autosched/triton/estimate.py`` computes the times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from autosched.integrations.config_files.file_names import Format
from autosched.integrations.config_files.installed import kernel_for
from autosched.integrations.config_files.launches import NoSuchKernel, parameters_of, true_launch
from autosched.integrations.config_files.layer import Layer
from autosched.integrations.config_files.tuning.layer_counts import ConfigColumns, launch_table, rows_of_blocks
from autosched.triton.estimate import compiled_resources, triton_counts, triton_times
from autosched.triton.storages import Storages
from autosched.triton.tuning.call import KernelCall
from autosched.triton.tuning.compiling.candidate import NotLaunched, compiled
from autosched.triton.tuning.function import TritonFunction
from autosched.triton.tuning.runner import TritonEstimateRunner
from cost_models.launch_time import LaunchTable
from search_spaces.hardware.devices import Device


class NotCounted(ValueError):
    """The work of a configuration's kernel cannot be counted. The message is one line."""


def derived_seconds(format: Format, layer: Layer, rows: int, config: Mapping[str, int], device: Device) -> float:
    """Estimate the time of a layer's two matmuls for a batch from the instructions that the compiled kernels execute.

    Args:
        format: Package of the kernel.
        layer: Experts, sizes and types.
        rows: Tokens of the batch.
        config: Tiles, warps and stages.
        device: The GPU.

    Returns:
        ESTIMATED seconds; infinity if no block fits.

    Raises:
        NotCounted: The kernel cannot be counted.
        HostFailure: This machine cannot run the emulator.
    """
    tables = [derived_table(format, layer, rows, config, shape, device) for shape in layer.matmuls]
    return float(sum(triton_times(table, device).seconds[0] for table in tables))


def derived_table(
    format: Format, layer: Layer, rows: int, config: Mapping[str, int], shape: tuple[int, int], device: Device
) -> LaunchTable:
    """Count the work of one matmul of a layer.

    Args:
        format: Package of the kernel.
        layer: Experts, sizes and types.
        rows: Tokens of the batch.
        config: Tiles, warps and stages.
        shape: (columns, depth) of the weights of one expert.
        device: The GPU.

    Returns:
        A table with the counts in its only row.

    Raises:
        NotCounted: The kernel cannot be counted.
        HostFailure: This machine cannot run the emulator.
    """
    kernel = kernel_for(format, moe=True).function
    tiles = dict(config)
    if format == "vllm" and layer.block_shape:
        tiles["BLOCK_SIZE_K"] = min(tiles["BLOCK_SIZE_K"], *layer.block_shape)
    columns = ConfigColumns.of([tiles])
    valid = max(1, round(float(rows_of_blocks(columns, layer, rows)[0])))
    try:
        grid, arguments = true_launch(
            parameters_of(kernel),
            layer.file_name("a GPU"),
            tiles,
            (valid,),
            1,
            (tiles["BLOCK_SIZE_N"], shape[1]),
            "cpu",
        )
        function = TritonFunction.of(kernel)
        call = KernelCall.of(function, {"grid": grid, **arguments})
        candidate = compiled(function, call, {}, None, device, Storages())
    except (NoSuchKernel, NotLaunched) as error:
        raise NotCounted(str(error)) from error
    runs = TritonEstimateRunner(device, lambda _: candidate).counted(candidate)
    if isinstance(runs, str):
        raise NotCounted(runs)
    by_size = launch_table(columns, layer, rows, *shape, device)
    counted = LaunchTable.of(triton_counts(candidate.launch, runs), compiled_resources(candidate.cubin))
    return replace(counted, blocks=by_size.blocks, dram_bytes=by_size.dram_bytes)
