"""Run a user's Python file as a module. Exceptions of the file are converted to a one-line message."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from measurements.files.text import one_line


class NotLoaded(ValueError):
    """A file cannot be run as a module. The message is one line that names the file."""


def run_as_module(path: Path, name: str) -> ModuleType:
    """Run a file and return its module, which is registered in ``sys.modules`` as ``name``.

    Raises NotLoaded if the file is not a Python file. Exceptions of the file's code are not caught.
    """
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise NotLoaded(f"{path} is not a Python file: give it a name that ends with .py")
    module = importlib.util.module_from_spec(spec)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        if before is None:
            sys.modules.pop(name, None)  # the file's code may have removed the module from sys.modules
        else:
            sys.modules[name] = before
        raise
    return module


def load_module(path: Path, name: str) -> ModuleType:
    """Run a file as ``run_as_module`` does, but convert every exception to NotLoaded, including SystemExit."""
    try:
        return run_as_module(path, name)
    except (KeyboardInterrupt, NotLoaded):
        raise
    except BaseException as error:  # the user's code may raise any exception, including SystemExit
        raise NotLoaded(f"{path} fails{_at_line(path, error)}: {said(error)}") from error


def said(error: BaseException) -> str:
    """Return the type and the message of an exception of a user's code, as one line."""
    try:
        text = str(error)
    except Exception:  # ``__str__`` of a user's exception class may itself raise any exception
        text = ""
    return one_line(f"{type(error).__name__}: {text}")


def _at_line(path: Path, error: BaseException) -> str:
    if isinstance(error, SyntaxError) and error.lineno and Path(error.filename or "").name == path.name:
        return f" at line {error.lineno}"
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename).name == path.name]
    return f" at line {lines[-1]}" if lines else ""
