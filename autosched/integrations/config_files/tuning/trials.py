"""Tuned layers in the trial store.

Each layer and batch size is a problem. Its trials have the chosen configuration and the package's default.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from autosched.integrations.config_files.defaults import default_config
from autosched.integrations.config_files.file_names import Format
from autosched.integrations.config_files.files import Config
from autosched.integrations.config_files.layer import Layer
from autosched.integrations.config_files.tuning.against_default import (
    DefaultComparison,
    TimedConfig,
    compare,
    same_config,
)
from autosched.integrations.config_files.tuning.layer_counts import estimated_seconds
from autosched.integrations.config_files.tuning.sidecar import LayerChoice, TunedLayer
from autosched.triton.tuning.problem import PREFIX, TritonProblem, problem_type
from autosched.verify.run import FAILED_LAUNCH
from autosched.version import VERSION
from measurements.store.store import ProblemSummary, Store
from measurements.trials.measurement import Measurement, Provenance, Resources, Status, Timing
from measurements.trials.problem_key import fields_of
from measurements.trials.trial import Trial
from search_spaces.hardware.devices import device as device_named
from search_spaces.spaces.schedule import Schedule

_NAME = "fused_moe"
OPERATOR = f"{PREFIX}{_NAME}"
_TEMPLATE_VERSION = "1"
_CHOSEN = "time model"  # sampler recorded in trials of tune --moe
_PROVENANCES = {"estimated": Provenance.ESTIMATED, "measured": Provenance.MEASURED}
_FAILURES = {
    "compile_error": Status.COMPILE_ERROR,
    FAILED_LAUNCH: Status.OUT_OF_RESOURCES,
    "wrong_result": Status.WRONG_RESULT,
}


def problem_of(layer: Layer, rows: int) -> TritonProblem:
    """Return the problem of computing the layer's two matmuls for a batch of ``rows``."""
    block = f"{layer.block_shape[0]}x{layer.block_shape[1]}" if layer.block_shape else "none"
    return problem_type(_NAME)(
        f"experts={layer.experts} hidden={layer.hidden} intermediate={layer.intermediate} top_k={layer.top_k} "
        f"dtype={layer.dtype or 'bf16'} block={block} rows={rows}"
    )


def trials_of(tuned: TunedLayer) -> Iterator[Trial]:
    """Yield a trial for each choice, and a trial for each default that a choice was compared with.

    If a choice has no time, the time model estimates it.
    """
    for choice in tuned.choices:
        comparison, provenance = choice.comparison, _PROVENANCES[choice.provenance]
        if comparison is not None:
            sides = [comparison.default]
            if not same_config(comparison.default.config, comparison.tuned.config):
                sides.append(comparison.tuned)
            for config in sides:
                yield _trial(tuned, choice.rows, config.config, _measurement(config, provenance), _CHOSEN)
            continue
        seconds, sampler = choice.seconds, _CHOSEN
        if seconds is None:
            (estimate,) = estimated_seconds([dict(choice.config)], tuned.layer, choice.rows, tuned.device).tolist()
            if estimate < float("inf"):
                seconds, provenance = estimate, Provenance.ESTIMATED
            sampler = "import"
        if seconds is None:
            reason = f"according to the time model, it does not fit on {tuned.device.name}"
            measurement = Measurement(Status.UNRANKED, Provenance.ESTIMATED, reason)
        else:
            # A choice without a comparison only has a median time.
            timing = Timing(seconds, seconds, seconds, 0 if provenance is Provenance.ESTIMATED else 1)
            measurement = _measurement(TimedConfig(choice.config, timing, choice.verification), provenance)
        yield _trial(tuned, choice.rows, choice.config, measurement, sampler)


def _trial(tuned: TunedLayer, rows: int, config: Config, measurement: Measurement, sampler: str) -> Trial:
    return Trial(
        problem_key=problem_of(tuned.layer, rows).key(),
        schedule=Schedule(OPERATOR, config),
        device=tuned.device.name,
        fingerprint=json.dumps(
            {"device": tuned.device.name, "kernel": tuned.kernel, "sm": tuned.device.arch}, sort_keys=True
        ),
        template_version=_TEMPLATE_VERSION,
        space_version="",
        kernel_digest=None,
        measurement=measurement,
        toolchain=f"Triton {tuned.triton}" if tuned.triton else "",
        driver="",
        autosched_version=VERSION,
        created=datetime.now(UTC),
        sampler=sampler,
        seed=0,
    )


def _measurement(timed_config: TimedConfig, provenance: Provenance) -> Measurement:
    verification, resources = timed_config.verification, None
    if timed_config.timing is None:
        status = _FAILURES.get(str(verification.get("status")), Status.LAUNCH_ERROR)
        return Measurement(status, provenance, str(verification.get("reason") or "the configuration cannot be used"))
    if verification.get("registers"):
        local = int(verification.get("local_bytes", 0))
        resources = Resources(
            int(verification["registers"]), local, local, local, 0, int(verification.get("shared_bytes", 0))
        )
    error = verification.get("error_over_bound")
    return Measurement(Status.OK, provenance, timing=timed_config.timing, error=error, resources=resources)


def tuned_layers(store: Store, format: Format, device: str | None = None) -> list[TunedLayer]:
    """Return the best configurations in a database for each layer and device.

    Measured configurations are preferred to estimated ones. Each configuration is compared with the format's default if
    the default's time is known. The default's time is taken from a trial. If no trial has this time and the time model
    chose the configuration, both times are estimated. Configurations imported without a time are returned unchanged.

    Args:
        store: The database.
        format: Package of the files.
        device: Name of the device; None for all.

    Returns:
        One ``TunedLayer`` for each layer and device.
    """
    best: dict[tuple[str, str], tuple[Trial, ProblemSummary]] = {}
    for summary in store.problems(OPERATOR):
        if not summary.ok or device not in (None, summary.device):
            continue
        trial = store.best_of(summary)
        known = best.get((summary.problem_key, summary.device))
        measured = trial is not None and trial.provenance is Provenance.MEASURED
        if trial is not None and (known is None or measured):
            best[summary.problem_key, summary.device] = trial, summary
    groups: dict[tuple[Layer, str], list[tuple[LayerChoice, str, str]]] = {}
    for (key, name), (trial, summary) in best.items():
        layer, rows = _layer_of(fields_of(key)["arguments"])
        config = default_config(layer, rows, format)
        comparison = None if config is None else _comparison(store, summary, trial, config, layer, rows, format)
        groups.setdefault((layer, name), []).append(
            (
                _choice(trial, comparison, rows),
                trial.toolchain.removeprefix("Triton ").strip(),
                trial.runner_info.kernel,
            )
        )
    return [_tuned(layer, name, entries) for (layer, name), entries in groups.items()]


def _comparison(
    store: Store, summary: ProblemSummary, trial: Trial, config: Config, layer: Layer, rows: int, format: Format
) -> DefaultComparison | None:
    """Compare a trial with the newest trial of the default, ``config``. None if the default's time is unknown."""
    tuned = _side(trial)
    default = next((t for t in reversed(store.entry(summary)) if same_config(_config(t), config)), None)
    if default is not None:
        return compare(_side(default), tuned, format)
    if trial.provenance is not Provenance.ESTIMATED or trial.sampler != _CHOSEN:
        return None
    device = device_named(summary.device)
    configs = [dict(config), dict(tuned.config)]
    before, after = estimated_seconds(configs, layer, rows, device).tolist()
    if after == float("inf"):
        return None
    refusal = {"status": FAILED_LAUNCH, "reason": f"according to the time model, it does not fit on {device.name}"}
    fits = before < float("inf")
    return compare(
        TimedConfig(config, Timing.estimate(before) if fits else None, {} if fits else refusal),
        TimedConfig(tuned.config, Timing.estimate(after), tuned.verification),
        format,
    )


def _tuned(layer: Layer, device: str, entries: Sequence[tuple[LayerChoice, str, str]]) -> TunedLayer:
    choices, versions, kernels = zip(*entries, strict=True)
    # Choices may have been tuned with several versions of Triton; the layer's version is then unknown.
    version = versions[0] if len(set(versions)) == 1 else ""
    return TunedLayer(layer, device_named(device), choices, version, "; ".join(sorted({k for k in kernels if k})))


def _choice(trial: Trial, comparison: DefaultComparison | None, rows: int) -> LayerChoice:
    provenance = "measured" if trial.provenance is Provenance.MEASURED else "estimated"
    if comparison is not None:
        return LayerChoice.of(rows, comparison, provenance)
    tuned = _side(trial)
    return LayerChoice(rows, tuned.config, tuned.seconds, provenance, tuned.verification)


def _config(trial: Trial) -> Config:
    return tuple(sorted((name, int(value)) for name, value in trial.schedule.items))


def _side(trial: Trial) -> TimedConfig:
    measurement = trial.measurement
    verification: dict[str, float | int | str] = {}
    if not measurement.ok:
        verification = {"status": measurement.status.value, "reason": measurement.reason}
    elif measurement.error is not None:
        verification = {"status": "ok", "error_over_bound": measurement.error}
    if measurement.resources is not None:
        r = measurement.resources
        verification |= {"registers": r.registers, "shared_bytes": r.dynamic_shared_bytes}
        verification |= {"local_bytes": r.stack_bytes} if r.stack_bytes else {}
    return TimedConfig(_config(trial), measurement.timing, verification)


def _layer_of(arguments: str) -> tuple[Layer, int]:
    pairs = dict(each.split("=") for each in arguments.split())
    block = pairs["block"]
    across, _, down = block.partition("x")
    shape = None if block == "none" else (int(across), int(down))
    experts, hidden, intermediate, top_k = (int(pairs[n]) for n in ("experts", "hidden", "intermediate", "top_k"))
    dtype = "" if pairs["dtype"] == "bf16" else pairs["dtype"]
    return Layer(experts, hidden, intermediate, top_k, dtype, shape), int(pairs["rows"])
