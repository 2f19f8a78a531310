"""Interface to other projects' files of tuned configurations. Each integration implements it for one project.

A file contains a configuration for each batch size of one layer. Commands and tests check, tune, read and write folders
of such files through this interface.
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
        emulate: If True, verify each configuration in the emulator.
        triton: The version of Triton that must be installed; "" for any version.
        with_python: The Python of an environment with another version of Triton, to compare with; "" for no comparison.
    """

    device: Device | None = None
    emulate: bool = True
    triton: str = ""
    with_python: str = ""


class ConfigEntry(Protocol):
    """One entry of a file, or the file itself."""

    @property
    def name(self) -> str:
        """Short name that is unique in the folder."""

    @property
    def path(self) -> Path:
        """The file."""


class ConfigVerifier(Protocol):
    """Context manager that verifies entries in separate processes. Equal configurations are verified only once."""

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

        Each entry has rows, config, seconds and verification. It also has the result of the comparison with the
        project's default: word ("default", "tuned", "noise", or None if the default has no time), default_seconds,
        tuned_seconds, ratio, interval, and default_refused (the reason why the default cannot be used, or None).
        """


class ConfigFiles(Protocol):
    """Files of tuned configurations of one project."""

    @property
    def batch_sizes(self) -> Sequence[int]:
        """Default batch sizes of a file."""

    def fits(self, folder: Path) -> bool:
        """Return True if the configuration files in a folder have names and locations that this project uses.

        Raises:
            ValueError: The folder contains no configuration file of any project.
        """

    def entries(self, folder: Path, check: ConfigCheck) -> tuple[Sequence[ConfigEntry], list[str]]:
        """Return the entries of each file, and one line for each file that has another format.

        Raises:
            ValueError: The folder contains no configuration file, or none for the device.
        """

    def verifier(self, check: ConfigCheck, workers: int | None = None) -> ConfigVerifier:
        """Return a verifier with ``workers`` processes. Default: one per core."""

    def check(self, folder: Path, check: ConfigCheck, on_entry: Callable[[str], None]) -> CheckReport:
        """Verify all entries of a folder.

        Args:
            folder: Folder of the files, or one file.
            check: Options of the check.
            on_entry: Function called for every entry, with its verdict; "" if the entry passes.

        Raises:
            ValueError: As for ``entries``.
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
        """Choose a configuration for each batch size of the layer that a model's config.json describes.

        Args:
            model: The config.json.
            device: The GPU for which configurations are chosen.
            rows: Batch sizes.
            ranks: Number of GPUs that share each expert.
            dtype: Type of the weights; "" for the quantization that the model states.
            candidates: Number of configurations to compile for each batch size; these are the time model's best.
            measure: If True, time the candidates on this machine's GPU.
            on_batch_size: Function called after each batch size.

        Raises:
            ValueError: The model has no such layer, or no configuration can be used for the layer.
            ImportError: Triton or torch is not installed.
        """

    def expert_products(self, model: Path, *, rows: Sequence[int], ranks: int, dtype: str) -> Sequence[ExpertProduct]:
        """Return an expert's matrix products for types with block scales, which are tuned into a database; else [].

        Args:
            model: The config.json.
            rows: Batch sizes.
            ranks: Number of GPUs that share each expert.
            dtype: Type of the weights; "" for the quantization that the model states.

        Raises:
            ValueError: The config.json describes no usable layer with experts.
        """

    def write(self, folder: Path, tuned: Any) -> Path:
        """Write a result of ``tune``, ``read`` or ``stored`` as a configuration file and a sidecar file."""

    def read(self, paths: Iterable[Path], model: Path | None) -> Sequence[tuple[Path, TunedConfigs]]:
        """Read configurations from files and folders. ``model`` is a config.json for files without a sidecar.

        Raises:
            ValueError: A folder contains no configuration file, or a file has neither a sidecar nor a model.
        """

    def trials(self, tuned: Any) -> Iterable[Trial]:
        """Convert configurations to trials for a database, one per batch size."""

    def stored(self, store: Store, device: str | None) -> Sequence[TunedConfigs]:
        """Return the best configurations in a database, for each layer and device."""


def recognised_files(folder: Path, option: str) -> ConfigFiles:
    """Determine which project the files of a folder belong to, and return the interface of this project.

    Args:
        folder: Folder of the files, or one file.
        option: Command-line option that names the project, for the error message.

    Raises:
        ValueError: The folder contains no configuration file, or the files match no project or several projects.
    """
    projects: dict[str, ConfigFiles] = {name: CONFIG_FILES.load(name) for name in CONFIG_FILES}
    fitting = [name for name, files in projects.items() if files.fits(folder)]
    if len(fitting) != 1:
        names = " or ".join(projects)
        state = f"may be of {' or '.join(fitting)}" if fitting else f"mixes files of {' and '.join(projects)}"
        raise ValueError(f"{folder} {state}: name the project with {option} {names}")
    return projects[fitting[0]]
