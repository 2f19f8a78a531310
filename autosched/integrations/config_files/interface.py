"""Interface through which other packages check, tune, read and write the files of vLLM or SGLang.

Torch and Triton are imported only when configurations are compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from autosched.integrations.config_files.check import FileEntry, ProcessConfigVerifier, check_configs, config_entries
from autosched.integrations.config_files.file_names import Format
from autosched.integrations.config_files.files import fits, read_folder
from autosched.integrations.config_files.layer import (
    BATCH_SIZES,
    expert_products,
    layer_of_model,
    refuse_without_kernel,
)
from autosched.integrations.config_files.tuning.sidecar import TunedLayer, read_tuned, write_tuned
from autosched.integrations.config_files.tuning.trials import trials_of, tuned_layers
from autosched.regression.config_files import ConfigCheck
from autosched.regression.config_files import ConfigFiles as Protocol
from autosched.regression.report import CheckReport
from autosched.tuning.expert_products import ExpertProduct
from measurements.store.store import Store
from measurements.trials.trial import Trial
from search_spaces.hardware.devices import Device


@dataclass(frozen=True)
class MoeConfigFiles:
    """Implements the protocol of ``autosched.registry.CONFIG_FILES``."""

    format: Format
    batch_sizes: Sequence[int] = BATCH_SIZES

    def fits(self, folder: Path) -> bool:
        """Return True if the files in the folder may have this project's format."""
        return fits(folder, self.format)

    def entries(self, folder: Path, check: ConfigCheck) -> tuple[list[FileEntry], list[str]]:
        """Return the entries of the folder's files, and a line for each unreadable file."""
        return config_entries(folder, self.format, check)

    def verifier(self, check: ConfigCheck, workers: int | None = None) -> ProcessConfigVerifier:
        """Return a verifier of entries that uses separate processes."""
        return ProcessConfigVerifier(self.format, check, workers)

    def check(self, folder: Path, check: ConfigCheck, on_entry: Callable[[str], None]) -> CheckReport:
        """Verify all entries of the folder, and return the report."""
        return check_configs(folder, self.format, check, on_entry)

    def tune(
        self,
        model: Path,
        device: Device,
        *,
        rows: Sequence[int],
        ranks: int,
        dtype: str,
        candidates: int,
        measure: bool,
        on_batch_size: Callable[[str], None],
    ) -> TunedLayer:
        """Tune the MoE layer of the model for each number of rows."""
        layer = layer_of_model(model, ranks=ranks, dtype=dtype)
        refuse_without_kernel(layer, device)
        import torch  # noqa: F401
        import triton  # noqa: F401

        from autosched.integrations.config_files.tuning.measure import gpu_measure
        from autosched.integrations.config_files.tuning.pool import VerifierPool
        from autosched.integrations.config_files.tuning.tune_layer import tune_layer

        with VerifierPool(self.format) as pool:
            return tune_layer(
                layer,
                device,
                self.format,
                pool,
                rows=rows,
                candidates=candidates,
                measure=gpu_measure(self.format) if measure else None,
                on_batch_size=on_batch_size,
            )

    def expert_products(self, model: Path, *, rows: Sequence[int], ranks: int, dtype: str) -> list[ExpertProduct]:
        """Return the experts' matrix products of the model; empty for types without block scales."""
        layer = layer_of_model(model, ranks=ranks, dtype=dtype)
        return expert_products(layer, rows) if layer.block_type else []

    def write(self, folder: Path, tuned: TunedLayer) -> Path:
        """Write the layer as a file of this project's format, and return its path."""
        return write_tuned(folder, self.format, tuned)

    def read(self, paths: Iterable[Path], model: Path | None) -> list[tuple[Path, TunedLayer]]:
        """Read files of this project's format. For a file without a sidecar, ``model`` gives hidden size and top-k."""
        layer = layer_of_model(model) if model is not None else None
        return [(file.path, read_tuned(file, layer)) for path in paths for file in read_folder(path, self.format)[0]]

    def trials(self, tuned: TunedLayer) -> Iterator[Trial]:
        """Yield a trial for each configuration of the layer."""
        return trials_of(tuned)

    def stored(self, store: Store, device: str | None) -> list[TunedLayer]:
        """Return the tuned layers in the store, of one device or of all."""
        return tuned_layers(store, self.format, device)


VLLM: Protocol = MoeConfigFiles("vllm")
SGLANG: Protocol = MoeConfigFiles("sglang")
