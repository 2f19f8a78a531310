"""Choose a configuration for each batch size of a layer.

All configurations are ranked by times estimated from sizes. The best are compiled and verified. The verified
configurations are ranked again, by measured times if there is a GPU, and otherwise by times estimated from counts of
the compiled kernels. The fastest is compared with the package's default. If the gain is within the noise, the default
is chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from autosched.integrations.config_files.defaults import default_config
from autosched.integrations.config_files.file_names import Format, file_device_of_row
from autosched.integrations.config_files.files import Config
from autosched.integrations.config_files.layer import Layer
from autosched.integrations.config_files.tuning.against_default import (
    TimedConfig,
    compare,
    compare_alternately,
)
from autosched.integrations.config_files.tuning.layer_counts import (
    ConfigColumns,
    as_config,
    estimated_seconds,
    tuner_space,
)
from autosched.integrations.config_files.tuning.pool import VerifierPool
from autosched.integrations.config_files.tuning.sidecar import LayerChoice, TunedLayer
from autosched.verify.verdict import outcome_of
from measurements.trials.measurement import Timing
from search_spaces.hardware.devices import Device

CANDIDATES = 4
_SAME = 1.0 + 1e-9
# function that measures the seconds of a batch on this machine's GPU
Measure = Callable[[Layer, int, dict[str, int]], float]
_Timed = Callable[[Config], float]


class NoUsableConfig(ValueError):
    """No configuration that was tried can be used. The message is one line."""


def first_choices(layer: Layer, rows: int, device: Device, count: int) -> list[tuple[dict[str, int], float]]:
    """Return the configurations that the time model ranks first.

    If the estimates of several configurations cannot be distinguished, only the configuration with the smallest tiles
    and fewest stages is returned.

    Args:
        layer: Experts, sizes and types.
        rows: Tokens of the batch.
        device: The GPU.
        count: Maximum number of configurations. Fewer are returned if fewer fit on the device.

    Returns:
        Configurations with ESTIMATED seconds, in ascending order of time.
    """
    space = tuner_space(layer)
    seconds = estimated_seconds(space, layer, rows, device)
    columns = ConfigColumns.of(space)
    weight = (columns.m + columns.n) * columns.k * columns.stages * columns.warps * columns.group
    ranked = sorted(range(len(space)), key=lambda k: (seconds[k], weight[k]))
    choices: list[tuple[dict[str, int], float]] = []
    for k in ranked:
        if seconds[k] == float("inf") or len(choices) == count:
            break
        if choices and seconds[k] <= choices[-1][1] * _SAME:
            continue
        choices.append((space[k], float(seconds[k])))
    return choices


def tune_layer(
    layer: Layer,
    device: Device,
    format: Format,
    pool: VerifierPool,
    *,
    rows: Sequence[int],
    candidates: int = CANDIDATES,
    measure: Measure | None = None,
    on_batch_size: Callable[[str], None] = lambda note: None,
) -> TunedLayer:
    """Choose a configuration for each batch size among ``candidates`` configurations that the time model ranks first.

    The choice is the fastest configuration that passes verification, or the package's default if the gain is within
    noise. Times come from ``measure`` or, without a GPU, from counts of the compiled kernel. Without a GPU,
    configurations that spill registers rank last.

    Args:
        layer: Experts, sizes and types.
        device: The GPU.
        format: Project whose file is written.
        pool: Processes that verify configurations.
        rows: Batch sizes, in tokens.
        candidates: Number of configurations to compile for each batch size; the time model's best are compiled.
        measure: Returns the seconds of a batch with a configuration on this machine's GPU; None without a GPU.
        on_batch_size: Called with a line for every batch size.

    Returns:
        A configuration for each batch size, with its verification.

    Raises:
        NoUsableConfig: For one of the batch sizes, no configuration can be used.
        ValueError: vLLM and SGLang have no file name for the device.
    """
    name = layer.file_name(file_device_of_row(device, format))
    choices, kernel, triton = [], "", ""

    def examined(ranked: tuple[dict[str, int], float], m: int) -> _Examined:
        config, by_sizes = ranked
        outcome, _ = pool.verified(name, config, device)
        counts = measure is None and outcome["status"] == "ok"
        return _Examined(
            as_config(config), outcome, by_sizes, pool.counted(layer, m, config, device) if counts else None
        )

    with ThreadPoolExecutor(pool.workers) as threads:
        try:
            for m in rows:
                ranked = first_choices(layer, m, device, candidates)
                known = [dict(config) for config in (default_config(layer, m, format),) if config is not None]
                defaults = zip(known, estimated_seconds(known, layer, m, device).tolist(), strict=True)
                examinations = list(threads.map(partial(examined, m=m), [*ranked, *defaults]))
                for each in examinations:
                    kernel, triton = each.outcome.get("kernel", kernel), each.outcome.get("triton", triton)
                tried, default = examinations[: len(ranked)], examinations[len(ranked) :]
                usable = [each for each in tried if each.usable]
                if not usable:
                    why = tried[0].outcome["reason"] if tried else f"no configuration fits on {device.name}"
                    raise NoUsableConfig(f"no configuration can be used for {m} rows: {why}")
                timed = None if measure is None else partial(_measured, measure, layer, m)
                choices.append(_choice(usable, default[0] if default else None, m, format, timed))
                on_batch_size("")
        finally:
            threads.shutdown(wait=False, cancel_futures=True)
    return TunedLayer(layer, device, tuple(choices), triton, kernel)


@dataclass(frozen=True)
class _Examined:
    """A compiled configuration with two estimates of its time.

    ``by_sizes`` is estimated from tile sizes. ``counted`` is estimated from the compiled kernel's instruction counts,
    and is None if these are unknown. Both are in seconds.
    """

    config: Config
    outcome: Mapping[str, Any]
    by_sizes: float
    counted: float | None

    @property
    def usable(self) -> bool:
        """True if the configuration may be used."""
        # a compiled configuration is uncertain if the emulator does not support an instruction
        compiled = bool(self.outcome.get("registers"))
        decision = outcome_of(self.outcome["status"])
        return decision == "accepted" or (decision == "uncertain" and compiled)

    @property
    def spills(self) -> bool:
        return bool(self.outcome.get("local_bytes"))

    def timed(self, timing: Timing | None) -> TimedConfig:
        return TimedConfig(self.config, timing, _verification(self.outcome))

    def estimated(self, seconds: float) -> TimedConfig:
        """Return the configuration with an estimated time; infinity means that no block fits on the device."""
        return self.timed(None if seconds == float("inf") else Timing.estimate(seconds))


def _choice(
    usable: Sequence[_Examined], default: _Examined | None, rows: int, format: Format, timed: _Timed | None
) -> LayerChoice:
    """Return the fastest configuration, or the default if the difference is within noise.

    ``default`` is None if the default is unknown.
    """
    seconds = [timed(s.config) for s in usable] if timed is not None else _estimates(usable)
    order = [(timed is None and s.spills, t) for s, t in zip(usable, seconds, strict=True)]
    best = order.index(min(order))
    tuned, provenance = usable[best], _PROVENANCE[timed is not None]
    if default is None:
        return LayerChoice(rows, tuned.config, seconds[best], provenance, _verification(tuned.outcome))
    if outcome_of(default.outcome["status"]) == "refused":
        timing = Timing.estimate(seconds[best]) if timed is None else Timing.of([seconds[best]])
        comparison = compare(default.timed(None), tuned.timed(timing), format)
    elif timed is not None:
        comparison = compare_alternately(default.timed(None), tuned.timed(None), timed)
    else:
        if tuned.spills and not default.spills:
            tuned = default
        before, after = _estimates([default, tuned])
        comparison = compare(default.estimated(before), tuned.estimated(after), format)
    return LayerChoice.of(rows, comparison, provenance)


def _estimates(examined: Sequence[_Examined]) -> list[float]:
    """Return the estimated seconds of each configuration: from the kernels' instruction counts, or from tile sizes.

    If any configuration lacks instruction counts, tile sizes are used for all, since the two kinds of estimates are not
    comparable.
    """
    counted = [each.counted for each in examined if each.counted is not None]
    return counted if len(counted) == len(examined) else [each.by_sizes for each in examined]


def _measured(measure: Measure, layer: Layer, rows: int, config: Config) -> float:
    return measure(layer, rows, dict(config))


_PROVENANCE = {False: "estimated", True: "measured"}


def _verification(outcome: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("status", "reason", "error_over_bound", "registers", "shared_bytes", "local_bytes")
    return {key: outcome[key] for key in keys if outcome.get(key)}
