"""Interface to other projects' files of tuned configurations, for commands and tests. Integrations implement it.

A file contains a configuration for each batch size of one layer. Folders of such files are checked, tuned, read and
written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from autosched.registry import CONFIG_FILES
from autosched.regression.report import CheckFinding, CheckReport
from autosched.tuning.expert_products import ExpertProduct
from measurements.store.store import Store
from measurements.trials.trial import Trial
from search_spaces.hardware.devices import Device


@dataclass(frozen=True)
class ConfigCheck:
    """Options of a check of configuration files.

    Args:
        device: Check only the files of this device; None for all.
        emulate: Verify each configuration in the emulator.
        triton: The Triton version that must be installed, "" for any.
        with_python: The Python of an environment with another Triton to compare with; "" for none.
    """

    device: Device | None = None
    emulate: bool = True
    triton: str = ""
    with_python: str = ""


class ConfigEntry(Protocol):
    """One entry of a file, or the file as a whole."""

    @property
    def name(self) -> str:
        """A short name that is unique in the folder."""

    @property
    def path(self) -> Path:
        """The file."""


class ConfigVerifier(Protocol):
    """Context manager that verifies entries in separate processes, each distinct configuration once."""

    def __enter__(self) -> Self:
        """Start the processes. Raises CannotCheck if configurations cannot be verified on this machine."""

    def __exit__(self, *_: Any) -> None:
        """End the processes."""

    def finding(self, entry: Any) -> CheckFinding:
        """Verify one entry and return its finding."""


class TunedConfigs(Protocol):
    """The configurations of one layer on one device, for some batch sizes."""

    @property
    def summary(self) -> str:
        """The layer and the device, in one line."""

    def document(self) -> dict[str, Any]:
        """Return ``device``, ``kernel``, ``triton``, ``provenance`` and ``entries``.

        An entry has rows, config, seconds, verification, and the comparison with the package's default: word
        ("default", "tuned", "noise", or None if no time of the default is known), default_seconds, tuned_seconds,
        ratio, interval, and default_refused (the reason why the default cannot be used, or None).
        """


class ConfigFiles(Protocol):
    """One project's files of tuned configurations."""

    @property
    def batch_sizes(self) -> Sequence[int]:
        """Default batch sizes of a file."""

    def fits(self, folder: Path) -> bool:
        """Return True if the names and locations of a folder's configuration files are possible in this project.

        Raises:
            ValueError: The folder contains no configuration file of any project.
        """

    def entries(self, folder: Path, check: ConfigCheck) -> tuple[Sequence[ConfigEntry], list[str]]:
        """Return each file and its entries, and a line for each file in another format.

        Raises:
            ValueError: The folder contains no configuration file, or none for the device.
        """

    def verifier(self, check: ConfigCheck, workers: int | None = None) -> ConfigVerifier:
        """Return a verifier with ``workers`` processes, by default one per core."""

    def check(self, folder: Path, check: ConfigCheck, on_entry: Callable[[str], None]) -> CheckReport:
        """Verify all entries of a folder.

        Args:
            folder: Folder of the files, or one file.
            check: Options of the check.
            on_entry: Called for every entry with its verdict; "" for one that passes.

        Raises:
            ValueError: As ``entries``.
            CannotCheck: Configurations cannot be verified on this machine.
        """

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
    ) -> TunedConfigs:
        """Choose a configuration for each batch size of the layer in a model's config.json.

        Args:
            model: The config.json.
            device: The GPU that the file is for.
            rows: Batch sizes.
            ranks: GPUs that share each expert.
            dtype: Type of the weights, which overrides the model's quantization; "" to use the model's.
            candidates: Number of the time model's first choices to compile for each batch size.
            measure: If True, time them on the GPU of this machine.
            on_batch_size: Called after each batch size.

        Raises:
            ValueError: The model has no such layer, or no configuration for it can be used.
            ImportError: Triton or torch is not installed.
        """

    def expert_products(self, model: Path, *, rows: Sequence[int], ranks: int, dtype: str) -> Sequence[ExpertProduct]:
        """Return the products of an expert, for layers that need a database; empty for layers that need a file.

        Args:
            model: The config.json.
            rows: Batch sizes.
            ranks: GPUs that share each expert.
            dtype: Type of the weights, which overrides the model's quantization; "" to use the model's.

        Raises:
            ValueError: The config.json describes no usable layer with experts.
        """

    def write(self, folder: Path, tuned: Any) -> Path:
        """Write the file of a result of ``tune``, ``read`` or ``stored``, and its sidecar."""

    def read(self, paths: Iterable[Path], model: Path | None) -> Sequence[tuple[Path, TunedConfigs]]:
        """Read files and folders. ``model`` is a config.json for files without a sidecar.

        Raises:
            ValueError: A folder contains no configuration file, or a file has neither a sidecar nor a model.
        """

    def trials(self, tuned: Any) -> Iterable[Trial]:
        """Return trials for the database, one for each batch size."""

    def stored(self, store: Store, device: str | None) -> Sequence[TunedConfigs]:
        """Return the best configurations in a database, by layer and device."""


def recognised_files(folder: Path, option: str) -> ConfigFiles:
    """Return the interface of the project to which the files of a folder belong.

    Args:
        folder: Folder of the files, or one file.
        option: Option that names the project if it cannot be recognised, for the error message.

    Raises:
        ValueError: The folder contains no configuration file, or it is unclear to which project all its files belong.
    """
    projects: dict[str, ConfigFiles] = {name: CONFIG_FILES.load(name) for name in CONFIG_FILES}
    fitting = [name for name, files in projects.items() if files.fits(folder)]
    if len(fitting) != 1:
        names = " or ".join(projects)
        state = f"may be of {' or '.join(fitting)}" if fitting else f"mixes files of {' and '.join(projects)}"
        raise ValueError(f"{folder} {state}: name the project with {option} {names}")
    return projects[fitting[0]]
