"""Choice of a configuration for each batch size of a layer.

The space is ranked by sizes. The first few are compiled, verified, and ranked again by counts of the compiled kernel,
or timed if there is a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from autosched.integrations.config_files.file_names import Format, file_device_of_row
from autosched.integrations.config_files.layer import Layer
from autosched.integrations.config_files.tuning.layer_counts import (
    ConfigColumns,
    as_config,
    estimated_seconds,
    tuner_space,
)
from autosched.integrations.config_files.tuning.pool import JudgePool
from autosched.integrations.config_files.tuning.sidecar import LayerChoice, TunedLayer
from autosched.verify.verdict import outcome_of
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
    columns = ConfigColumns.of(space)
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
    """Return for each batch size one of the model's ``candidates``: the fastest sound one.

    Times are those of ``measure``, or, without a GPU, estimates from counts of the compiled kernel. Configurations that
    spill registers come last then.

    Args:
        layer: Experts, sizes and types.
        device: The GPU.
        format: Project whose file is written.
        pool: Processes that judge configurations.
        rows: Batch sizes, in tokens.
        candidates: Number of the model's choices that are compiled for each batch size.
        measure: Returns the seconds of a batch with a configuration on this machine's GPU; None without one.
        told: Called with a line for every batch size.

    Returns:
        A configuration for each batch size, and what it was verified with.

    Raises:
        NothingSound: No choice for a batch size can be used.
        ValueError: Files have no name for the device.
    """
    name = layer.file_name(file_device_of_row(device, format))
    choices, kernel, triton = [], "", ""

    def examined(config: dict[str, int], m: int) -> tuple[Mapping[str, Any], float | None]:
        found, _ = pool.judged(name, config, device)
        counts = measure is None and found["status"] == "ok"
        return found, pool.counted(layer, m, config, device) if counts else None

    with ThreadPoolExecutor(pool.workers) as threads:
        try:
            for m in rows:
                ranked = first_choices(layer, m, device, candidates)
                sound: list[_Sound] = []
                refused: list[str] = []
                examinations = threads.map(partial(examined, m=m), [config for config, _ in ranked])
                for (config, estimate), (found, counted) in zip(ranked, examinations, strict=True):
                    kernel, triton = found.get("kernel", kernel), found.get("triton", triton)
                    compiled = bool(found.get("registers"))  # what the emulator lacks an instruction of has some, too
                    outcome = outcome_of(found["status"])
                    if outcome == "accepted" or (outcome == "uncertain" and compiled):
                        sound.append(_Sound(config, found, estimate, counted))
                    else:
                        refused.append(found["reason"])
                if not sound:
                    why = refused[0] if refused else f"none of its configurations fits on {device.name}"
                    raise NothingSound(f"no configuration for {m} rows: {why}")
                choices.append(_fastest(sound, layer, m, measure))
                told("")
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
    return TunedLayer(layer, device, tuple(choices), triton, kernel)


@dataclass(frozen=True)
class _Sound:
    """A candidate that may be taken: ESTIMATED seconds by sizes, and by counts where it can be counted."""

    config: dict[str, int]
    found: Mapping[str, Any]
    by_sizes: float
    counted: float | None


def _fastest(sound: Sequence[_Sound], layer: Layer, rows: int, measure: Measure | None) -> LayerChoice:
    if measure is not None:
        seconds = [measure(layer, rows, s.config) for s in sound]
    else:  # one estimate is compared with its like alone
        counted = [s.counted for s in sound if s.counted is not None]
        seconds = counted if len(counted) == len(sound) else [s.by_sizes for s in sound]
    spills = [measure is None and bool(s.found.get("local_bytes")) for s in sound]
    best = min(range(len(sound)), key=lambda k: (spills[k], seconds[k]))
    return LayerChoice(
        rows,
        as_config(sound[best].config),
        seconds[best],
        _PROVENANCE[measure is not None],
        _verification(sound[best].found),
    )


_PROVENANCE = {False: "estimated", True: "measured"}


def _verification(found: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("status", "reason", "error_over_bound", "registers", "shared_bytes", "local_bytes")
    return {key: found[key] for key in keys if found.get(key)}
