"""Load Triton functions, and functions that create arguments, from ``FILE:FUNCTION``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autosched.user_kernels.expressions import suggestion
from measurements.files import python_file
from measurements.files.python_file import load_module, said


class FunctionNotLoaded(ValueError):
    """The file or the function cannot be loaded. The message is one line."""


def load(source: str, purpose: str) -> Any:
    """Return the object specified by ``FILE:NAME``.

    The file is imported once per process, with its own folder on the search path. A file in a package is imported as a
    module of the package. ``purpose`` is the name of the option, for messages. Raises FunctionNotLoaded.
    """
    file, colon, name = source.rpartition(":")
    if not colon or not file or not name.isidentifier():
        raise FunctionNotLoaded(f"{purpose} {source!r}: use FILE:NAME, such as kernels.py:matmul")
    path = Path(file)
    if not path.is_file():
        raise FunctionNotLoaded(f"{purpose}: {file}: no such file")
    module = _module(path.resolve(), purpose)
    loaded = getattr(module, name, None)
    if loaded is None:
        known = [n for n, value in vars(module).items() if callable(value) and not n.startswith("_")]
        raise FunctionNotLoaded(f"{purpose}: {file} has no {name}: {suggestion(name, known)}")
    return loaded


def load_as_imported(module: str, file: str, name: str, search_path: Sequence[str], purpose: str) -> Any:
    """Import a function as another process did: under the same module name and from the same folders.

    Args:
        module: Name of the module in the other process.
        file: File of the module. It is loaded directly if the name refers to another file in this process.
        name: Name of the function.
        search_path: ``sys.path`` of that process.
        purpose: Name of the function in messages.

    Raises:
        FunctionNotLoaded: The function cannot be imported.
    """
    sys.path += [folder for folder in search_path if folder not in sys.path]
    try:
        imported = importlib.import_module(module)
    except ImportError as error:
        # raise if the module exists but a module that it imports is missing
        if not f"{module}.".startswith(f"{error.name}."):
            raise FunctionNotLoaded(_cannot_import(purpose, module, error)) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # catch all exceptions, because users' code may raise any, including SystemExit
        raise FunctionNotLoaded(_cannot_import(purpose, module, error)) from error
    else:
        if Path(getattr(imported, "__file__", None) or "").resolve() == Path(file).resolve() and hasattr(
            imported, name
        ):
            return getattr(imported, name)
    return load(f"{file}:{name}", purpose)


def _cannot_import(purpose: str, module: object, error: BaseException) -> str:
    return f"{purpose}: {module} cannot be imported: {said(error)}"


def _package_of(path: Path) -> tuple[Path, str]:
    """Return the folder of a file's outermost package, and the name of the file's module."""
    names, folder = [path.stem], path.parent
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        names.insert(0, folder.name)
        folder = folder.parent
    return folder, ".".join(names)


def _module(path: Path, purpose: str) -> Any:
    root, dotted = _package_of(path)
    if "." in dotted:
        if str(root) not in sys.path:
            sys.path.insert(0, str(root))
        try:
            module = importlib.import_module(dotted)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise FunctionNotLoaded(_cannot_import(purpose, path, error)) from error
        if Path(getattr(module, "__file__", None) or "").resolve() == path:
            return module
    known = sys.modules.get(path.stem)
    if known is not None and Path(getattr(known, "__file__", None) or "").resolve() == path:
        return known
    name = path.stem if known is None else f"autosched_{path.stem}"
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # keep the search path, because a loaded function may import modules when called
    try:
        return load_module(path, name)
    except python_file.NotLoaded as error:
        raise FunctionNotLoaded(f"{purpose}: {error}") from error
