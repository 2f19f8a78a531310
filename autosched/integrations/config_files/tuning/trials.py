"""Tuned layers in the trial store: a problem for each layer and batch size, a trial for its configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from autosched.integrations.config_files.layer import Layer
from autosched.integrations.config_files.tuning.layer_counts import estimated_seconds
from autosched.integrations.config_files.tuning.sidecar import LayerChoice, TunedLayer
from autosched.triton.tuning.problem import PREFIX, TritonProblem, problem_type
from autosched.version import VERSION
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Resources, Status, Timing
from measurements.trials.problem_key import fields_of
from measurements.trials.trial import Trial
from search_spaces.hardware.devices import Device
from search_spaces.hardware.devices import device as device_named
from search_spaces.spaces.schedule import Schedule

_NAME = "fused_moe"
OPERATOR = f"{PREFIX}{_NAME}"
_TEMPLATE_VERSION = "1"
_PROVENANCES = {"estimated": Provenance.ESTIMATED, "measured": Provenance.MEASURED}


def problem_of(layer: Layer, rows: int) -> TritonProblem:
    """Return the layer's two matmuls for a batch of ``rows``."""
    block = f"{layer.block_shape[0]}x{layer.block_shape[1]}" if layer.block_shape else "none"
    return problem_type(_NAME)(
        f"experts={layer.experts} hidden={layer.hidden} intermediate={layer.intermediate} top_k={layer.top_k} "
        f"dtype={layer.dtype or 'bf16'} block={block} rows={rows}"
    )


def trials_of(tuned: TunedLayer) -> Iterator[Trial]:
    """One for each choice; a choice without a time gets the time model's, which is ESTIMATED."""
    for choice in tuned.choices:
        seconds, provenance = choice.seconds, _PROVENANCES[choice.provenance]
        if seconds is None:
            (estimate,) = estimated_seconds([dict(choice.config)], tuned.layer, choice.rows, tuned.device).tolist()
            seconds, provenance = (estimate, Provenance.ESTIMATED) if estimate < float("inf") else (None, provenance)
        yield Trial(
            problem_key=problem_of(tuned.layer, choice.rows).key(),
            schedule=Schedule(OPERATOR, choice.config),
            device=tuned.device.name,
            fingerprint=json.dumps(
                {"device": tuned.device.name, "kernel": tuned.kernel, "sm": tuned.device.arch}, sort_keys=True
            ),
            template_version=_TEMPLATE_VERSION,
            space_version="",
            kernel_digest=None,
            measurement=_measurement(choice, seconds, provenance, tuned.device),
            toolchain=f"Triton {tuned.triton}" if tuned.triton else "",
            driver="",
            autosched_version=VERSION,
            created=datetime.now(UTC),
            sampler="time model" if choice.seconds is not None else "import",
            seed=0,
        )


def _measurement(choice: LayerChoice, seconds: float | None, provenance: Provenance, device: Device) -> Measurement:
    if seconds is None:
        reason = f"the time model has no room for it on {device.name}"
        return Measurement(Status.UNRANKED, Provenance.ESTIMATED, reason)
    verification, resources = choice.verification, None
    if verification.get("registers"):
        local = int(verification.get("local_bytes", 0))
        resources = Resources(
            int(verification["registers"]), local, local, local, 0, int(verification.get("shared_bytes", 0))
        )
    error = verification.get("error_over_bound")
    repeats = 0 if provenance is Provenance.ESTIMATED else 1  # one median is all that a sidecar keeps
    timing = Timing(seconds, seconds, seconds, repeats)
    return Measurement(Status.OK, provenance, timing=timing, error=error, resources=resources)


def tuned_layers(store: Store, device: str | None = None) -> list[TunedLayer]:
    """Return the best configurations that a database has, by layer and device. Measured go before estimated."""
    best: dict[tuple[str, str], Trial] = {}
    for summary in store.problems(OPERATOR):
        if not summary.ok or device not in (None, summary.device):
            continue
        trial = store.best_of(summary)
        known = best.get((summary.problem_key, summary.device))
        measured = trial is not None and trial.provenance is Provenance.MEASURED
        if trial is not None and (known is None or measured):
            best[summary.problem_key, summary.device] = trial
    groups: dict[tuple[Layer, str], list[tuple[LayerChoice, str, str]]] = {}
    for (key, name), trial in best.items():
        layer, rows = _layer_of(fields_of(key)["arguments"])
        groups.setdefault((layer, name), []).append(
            (
                _choice(trial, rows),
                trial.toolchain.removeprefix("Triton ").strip(),
                trial.runner_info.kernel,
            )
        )
    return [_tuned(layer, name, found) for (layer, name), found in groups.items()]


def _tuned(layer: Layer, device: str, found: Sequence[tuple[LayerChoice, str, str]]) -> TunedLayer:
    choices, versions, kernels = zip(*found, strict=True)
    # Choices of several versions have no version of their own.
    version = versions[0] if len(set(versions)) == 1 else ""
    return TunedLayer(layer, device_named(device), choices, version, "; ".join(sorted({k for k in kernels if k})))


def _choice(trial: Trial, rows: int) -> LayerChoice:
    config = tuple((name, int(value)) for name, value in trial.schedule.items)
    found = trial.measurement
    verification: dict[str, float | int | str] = {}
    if found.error is not None:
        verification = {"status": "ok", "error_over_bound": found.error}
    if found.resources is not None:
        r = found.resources
        verification |= {"registers": r.registers, "shared_bytes": r.dynamic_shared_bytes}
        verification |= {"local_bytes": r.stack_bytes} if r.stack_bytes else {}
    provenance = "measured" if trial.provenance is Provenance.MEASURED else "estimated"
    return LayerChoice(rows, tuple(sorted(config)), trial.seconds, provenance, verification)


def _layer_of(arguments: str) -> tuple[Layer, int]:
    pairs = dict(each.split("=") for each in arguments.split())
    block = pairs["block"]
    across, _, down = block.partition("x")
    shape = None if block == "none" else (int(across), int(down))
    experts, hidden, intermediate, top_k = (int(pairs[n]) for n in ("experts", "hidden", "intermediate", "top_k"))
    dtype = "" if pairs["dtype"] == "bf16" else pairs["dtype"]
    return Layer(experts, hidden, intermediate, top_k, dtype, shape), int(pairs["rows"])
