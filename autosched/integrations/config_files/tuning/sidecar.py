"""Read and write tuned-configuration files, and sidecar files with facts that the format cannot represent.

``NAME.autosched.json`` contains the layer's hidden size and top-k, the device's row, Triton's version and the name of
the verified kernel. For each batch size it contains a time with its provenance, the resources, the verification, and
the comparison with the package's default.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from autosched.integrations.config_files.file_names import Format, file_device_of_row
from autosched.integrations.config_files.files import SIDECAR, Config, ConfigFile
from autosched.integrations.config_files.layer import Layer, ModelError
from autosched.integrations.config_files.tuning.against_default import DefaultComparison
from measurements.files.atomic_write import publish
from measurements.files.bounded import read_json
from search_spaces.hardware.devices import Device

_VERSION = 1
_MOST_BYTES = 1 << 24


@dataclass(frozen=True)
class LayerChoice:
    """Chosen configuration for a batch of ``rows``.

    ``provenance`` is "estimated" or "measured". ``verification`` has a status and numbers, and is empty if the
    configuration was not verified. ``comparison`` compares the configuration with the package's default; it is None if
    the default's time is unknown.
    """

    rows: int
    config: Config
    seconds: float | None
    provenance: str = "estimated"
    verification: Mapping[str, Any] = field(default_factory=dict)
    comparison: DefaultComparison | None = None

    @classmethod
    def of(cls, rows: int, comparison: DefaultComparison, provenance: str) -> Self:
        """Return the choice for the batch size ``rows``: the better of the two configurations in ``comparison``."""
        chosen = comparison.chosen
        return cls(rows, chosen.config, chosen.seconds, provenance, chosen.verification, comparison)


@dataclass(frozen=True)
class TunedLayer:
    """Content of a configuration file and of its sidecar."""

    layer: Layer
    device: Device
    choices: tuple[LayerChoice, ...]
    triton: str
    kernel: str = ""

    @property
    def summary(self) -> str:
        """The layer's sizes and the device, in one line."""
        layer = self.layer
        return (
            f"{layer.experts} experts of size {layer.intermediate}, hidden size {layer.hidden}, top-{layer.top_k}, "
            f"on {self.device.name}"
        )

    def document(self) -> dict[str, Any]:
        """Return the layer as JSON. The provenance is "measured" if at least one choice is measured."""
        measured = any(choice.provenance == "measured" for choice in self.choices)
        return {
            "device": self.device.name,
            "kernel": self.kernel,
            "triton": self.triton,
            "provenance": "measured" if measured else "estimated",
            "entries": [
                {
                    "rows": c.rows,
                    "config": dict(c.config),
                    "seconds": c.seconds,
                    "verification": dict(c.verification),
                    **_summary(c.comparison),
                }
                for c in self.choices
            ],
        }


def write_tuned(folder: Path, format: Format, tuned: TunedLayer) -> Path:
    """Write the sidecar, then the configuration file. SGLang's files go to a subfolder named after Triton's version.

    Args:
        folder: Folder of the files.
        format: Package that reads them.
        tuned: The layer.

    Returns:
        Path of the configuration file.

    Raises:
        ValueError: vLLM and SGLang have no file name for the device.
        OSError: A file cannot be written.
    """
    name = tuned.layer.file_name(file_device_of_row(tuned.device, format))
    if format == "sglang" and tuned.triton:
        folder = folder / f"triton_{tuned.triton.replace('.', '_')}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name.text(format)
    document: dict[str, Any] = {"triton_version": tuned.triton} if format == "vllm" and tuned.triton else {}
    ordered = sorted(tuned.choices, key=lambda c: c.rows)
    document |= {str(c.rows): dict(c.config) for c in ordered}
    sidecar_content = {
        "autosched_sidecar": _VERSION,
        "hidden_size": tuned.layer.hidden,
        "top_k": tuned.layer.top_k,
        "device": tuned.device.name,
        "triton": tuned.triton,
        "kernel": tuned.kernel,
        "entries": {
            str(c.rows): {
                "seconds": c.seconds,
                "provenance": c.provenance,
                "verification": dict(c.verification),
                "comparison": None if c.comparison is None else c.comparison.document(),
            }
            for c in ordered
        },
    }
    publish(path.with_name(path.stem + SIDECAR), _json(sidecar_content))
    publish(path, _json(document))
    return path


def read_tuned(file: ConfigFile, model: Layer | None) -> TunedLayer:
    """Read a file with its sidecar. Without a sidecar, take hidden size and top-k from ``model``.

    Raises ModelError.
    """
    name, device = file.name, file.name.device
    sidecar = _sidecar(file.path)
    if file.faults or not name.is_moe:
        raise ModelError(f"{file.path}: {file.faults[0] if file.faults else 'not of a mixture of experts'}")
    if device is None:
        raise ModelError(f"{file.path}: {name.device_name} is not a known NVIDIA GPU")
    if sidecar is None and model is None:
        raise ModelError(f"{file.path} has no {SIDECAR[1:]} next to it: pass --model with the config.json of the model")
    try:
        hidden = int(sidecar["hidden_size"]) if sidecar is not None else model.hidden  # type: ignore[union-attr]
        top_k = int(sidecar["top_k"]) if sidecar is not None else model.top_k  # type: ignore[union-attr]
        entries = {int(rows): value for rows, value in (sidecar or {}).get("entries", {}).items()}
        layer = Layer(name.experts, hidden, name.n, top_k, name.dtype, name.block_shape)
        choices = tuple(_choice(e.size, e.config, entries.get(e.size, {})) for e in file.entries if not e.fault)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ModelError(f"{file.path.stem}{SIDECAR} is damaged: {error}") from error
    return TunedLayer(layer, device, choices, file.triton, str((sidecar or {}).get("kernel", "")))


def _choice(rows: int, config: Config, sidecar: Mapping[str, Any]) -> LayerChoice:
    seconds = sidecar.get("seconds")
    if seconds is not None and not 0 < float(seconds) < float("inf"):
        raise ValueError(f"invalid time {seconds}")
    provenance = str(sidecar.get("provenance", "estimated"))
    if provenance not in ("estimated", "measured"):
        raise ValueError(f"invalid provenance {provenance[:40]}")
    compared = sidecar.get("comparison")
    comparison = None if compared is None else DefaultComparison.from_document(compared)
    if comparison is not None and comparison.chosen.config != config:
        comparison = None  # use the sidecar's data only if the file was not changed later
    return LayerChoice(
        rows,
        config,
        None if seconds is None else float(seconds),
        provenance,
        dict(sidecar.get("verification", {})),
        comparison,
    )


def _summary(comparison: DefaultComparison | None) -> dict[str, Any]:
    if comparison is None:
        return dict.fromkeys(("word", "default_seconds", "tuned_seconds", "ratio", "interval", "default_refused"))
    interval = comparison.interval
    return {
        "word": comparison.word,
        "default_seconds": comparison.default.seconds,
        "tuned_seconds": comparison.tuned.seconds,
        "ratio": comparison.ratio,
        "interval": None if interval is None else list(interval),
        "default_refused": None if comparison.default.timing else comparison.default.verification.get("reason", ""),
    }


def _sidecar(path: Path) -> dict[str, Any] | None:
    path_of_sidecar = path.with_name(path.stem + SIDECAR)
    if not path_of_sidecar.exists():
        return None
    try:
        document = read_json(path_of_sidecar, _MOST_BYTES)
    except (OSError, ValueError) as error:
        raise ModelError(f"{path_of_sidecar} cannot be read as JSON: {error}") from error
    if not isinstance(document, dict) or document.get("autosched_sidecar") != _VERSION:
        raise ModelError(f"{path_of_sidecar} is not a sidecar in the format of this version")
    return document


def _json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, indent=4, allow_nan=False).encode() + b"\n"
