"""Check output files before a command starts its work, and write them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path

from autosched.cli.terminal.errors import InputError
from measurements.files.atomic_write import publish
from measurements.store.sqlite_header import is_sqlite


def check_outputs(outputs: Sequence[str | None], inputs: Sequence[str | None]) -> None:
    """Check that output files can be written and would not replace an input or a database. Links are followed.

    Args:
        outputs: Output files; None for options that were not given.
        inputs: Input files or database URLs; None for options that were not given.

    Raises:
        InputError: The folder of an output does not exist, or an output is a folder, cannot be written, is named twice,
            or would replace an input or a database.
    """
    outputs_given = [Path(output) for output in outputs if output is not None]
    read = [Path(i) for i in inputs if i is not None and "://" not in i and Path(i).exists()]
    for number, output in enumerate(outputs_given):
        is_broken_link = output.is_symlink() and not output.exists()
        target = Path(os.path.realpath(output)) if is_broken_link else output.absolute()
        folder = target.parent
        if output.is_dir() or not folder.is_dir() or not output.name or (is_broken_link and target.is_symlink()):
            raise InputError(f"{output} cannot be written: name a file in an existing folder")
        if not os.access(output if output.exists() else folder, os.W_OK):
            raise InputError(f"{output} cannot be written: change its permissions, or name another file")
        if any(output.absolute() == other.absolute() for other in outputs_given[:number]):
            raise InputError(f"{output} is given for two outputs: use different files")
        if output.exists() and any(output.samefile(i) for i in read):
            raise InputError(f"{output} is also an input, and would be replaced: name another output file")
        if _is_database(output):
            raise InputError(f"{output} is a database, and would be replaced: name another output file")


def check_picture(option: str, picture: str | Path | None) -> None:
    """Check that a picture can be drawn.

    Raises:
        InputError: The file is neither .svg nor .png, it cannot be replaced, or matplotlib is missing.
    """
    if picture is None:
        return
    if Path(picture).suffix not in (".svg", ".png"):
        raise InputError(f"{option} needs a file name ending in .svg or .png, not {picture}")
    if importlib.util.find_spec("matplotlib") is None:
        raise InputError(f"{option} needs matplotlib: pip install 'autosched[pictures]'")
    replaceable(picture)


def replaceable(output: str | Path) -> Path:
    """Return the path at which a new file can replace ``output``, with links resolved.

    Raises:
        InputError: The output is a device or a pipe, or the file to which stdout or stderr is redirected.
    """
    path = Path(output)
    if path.exists() and (not path.is_file() or any(_is_open_as(path, number) for number in (1, 2))):
        raise InputError(f'invalid output "{output}", a device or an open file: name another file')
    return Path(os.path.realpath(path))


def write_output(output: str | Path, content: bytes) -> None:
    """Write an output file completely or not at all; devices, pipes and open files are written directly.

    Raises:
        OSError: The file cannot be written. The error names the file.
    """
    path = Path(os.path.realpath(output))
    special = path.exists() and (not path.is_file() or any(_is_open_as(path, number) for number in (1, 2)))
    if not special and os.access(path.parent, os.W_OK):
        return publish(path, content)
    try:
        path.write_bytes(content)
    except OSError as error:
        error.filename = str(output)
        raise


def _is_open_as(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except OSError:  # stdout or stderr is closed
        return False


def _is_database(path: Path) -> bool:
    try:
        return path.is_file() and is_sqlite(path)
    except OSError:
        return False
