"""The option --format: the package whose tuned configuration files are read or written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from autosched.cli.terminal.errors import InputError
from autosched.registry import CONFIG_FILES, UnknownIntegration

if TYPE_CHECKING:
    from autosched.regression.config_files import ConfigFiles


def config_files(format: str) -> ConfigFiles:
    """Return the file format that ``--format`` names.

    Raises:
        InputError: The format is unknown; the message lists the formats.
    """
    try:
        files: ConfigFiles = CONFIG_FILES.load(format)
    except UnknownIntegration as error:
        raise InputError(f"--format {error}") from error
    return files
