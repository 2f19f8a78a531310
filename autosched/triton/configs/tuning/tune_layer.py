"""Chooses a configuration for each batch size of a layer: ranked by sizes, compiled, proven, timed where a GPU is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from autosched.triton.configs.file_names import Format, file_device_of_row
from autosched.triton.configs.layer import Layer
from autosched.triton.configs.tuning.layer_counts import Columns, as_config, estimated_seconds, tuner_space
from autosched.triton.configs.tuning.pool import JudgePool
from autosched.triton.configs.tuning.sidecar import Choice, TunedLayer
from search_spaces.hardware.devices import Device

CANDIDATES = 4
_SAME = 1.0 + 1e-9
Measure = Callable[[Layer, int, dict[str, int]], float]  # seconds of a batch on the GPU that is here


class NothingSound(ValueError):
    """No configuration that was tried can be used. The message is one line."""


def first_choices(layer: Layer, rows: int, device: Device, count: int) -> list[tuple[dict[str, int], float]]:
    """Return the configurations that the time model puts first.

    Of those that it cannot tell apart, the one with the smallest tiles and fewest stages stands for all.

    Args:
        layer: Experts, sizes and types.
        rows: Tokens of the batch.
        device: The GPU.
        count: How many at most; there are fewer where fewer fit.

    Returns:
        Configurations with ESTIMATED seconds, the fastest first.
    """
    space = tuner_space(layer)
    seconds = estimated_seconds(space, layer, rows, device)
    columns = Columns.of(space)
    weight = (columns.m + columns.n) * columns.k * columns.stages * columns.warps * columns.group
    ranked = sorted(range(len(space)), key=lambda k: (seconds[k], weight[k]))
    found: list[tuple[dict[str, int], float]] = []
    for k in ranked:
        if seconds[k] == float("inf") or len(found) == count:
            break
        if found and seconds[k] <= found[-1][1] * _SAME:
            continue
        found.append((space[k], float(seconds[k])))
    return found


def tune_layer(
    layer: Layer,
    device: Device,
    format: Format,
    pool: JudgePool,
    *,
    rows: Sequence[int],
    candidates: int = CANDIDATES,
    measure: Measure | None = None,
    told: Callable[[str], None] = lambda note: None,
) -> TunedLayer:
    """Return the first sound one of the model's choices for each batch size, or the fastest by ``measure``.

    Args:
        layer: Experts, sizes and types.
        device: The GPU.
        format: Whose file is written.
        pool: Processes that judge configurations.
        rows: Batch sizes, in tokens.
        candidates: How many of the model's choices are looked at for each.
        measure: Seconds of a batch with a configuration on the GPU that is here; None to trust the model.
        told: Called with a line for every batch size.

    Returns:
        A configuration for each batch size, and what it was proven with.

    Raises:
        NothingSound: No choice for a batch size can be used.
        ValueError: Files have no name for the device.
    """
    name = layer.file_name(file_device_of_row(device, format))
    ranked = {m: first_choices(layer, m, device, candidates) for m in rows}
    choices, kernel, triton = [], "", ""
    with ThreadPoolExecutor(pool.workers) as threads:
        try:
            for m in rows:
                jobs = [threads.submit(pool.judged, name, config, device) for config, _ in ranked[m]]
                best: Choice | None = None
                refused: list[str] = []
                for (config, estimate), job in zip(ranked[m], jobs, strict=True):
                    if best is not None and measure is None and not best.proof.get("local_bytes"):
                        job.cancel()  # what the model puts behind it is not needed
                        continue
                    found, _ = job.result()
                    kernel, triton = found.get("kernel", kernel), found.get("triton", triton)
                    compiled = bool(found.get("registers"))  # what the emulator lacks an instruction of has some, too
                    if found["status"] != "sound" and not (found["status"] == "unproven" and compiled):
                        refused.append(found["reason"])
                        continue
                    seconds = estimate if measure is None else measure(layer, m, config)
                    spills = bool(found.get("local_bytes"))
                    if measure is None and best is not None and spills:
                        continue
                    if best is None or measure is None or seconds < (best.seconds or 0.0):
                        best = Choice(m, as_config(config), seconds, _PROVENANCE[measure is not None], _proof(found))
                if best is None:
                    why = refused[0] if refused else f"none of its configurations fits on {device.name}"
                    raise NothingSound(f"no configuration for {m} rows: {why}")
                choices.append(best)
                told("")
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
    return TunedLayer(layer, device, tuple(choices), triton, kernel)


_PROVENANCE = {False: "estimated", True: "measured"}


def _proof(found: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("status", "reason", "error_over_bound", "registers", "shared_bytes", "local_bytes")
    return {key: found[key] for key in keys if found.get(key)}
