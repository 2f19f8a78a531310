"""Attach a database to the autotuners of Triton and FlashInfer as soon as a program imports them.

Python imports this module at its start (see ``__init__.py``). To keep the start of every process fast, this module only
imports modules that Python has already loaded. This module hides the environment's own ``sitecustomize``, and therefore
runs that module too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_FOLDER = os.path.dirname(os.path.abspath(__file__))
# Keys: modules that define an autotuner. Values: autosched's modules whose ``attach_served`` attaches to it.
_ADAPTERS = {
    "triton.runtime.autotuner": "autosched.triton.persistence.autotuners",
    "flashinfer.autotuner.autotuner": "autosched.integrations.flashinfer.persistence",
}


class _Finder:
    """Module finder that attaches the database to an autotuner once the autotuner is imported."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        adapter = _ADAPTERS.pop(name, None)
        if adapter is None:
            return None
        if not _ADAPTERS:
            sys.meta_path.remove(_Finder)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            plain = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                plain(module)
                _attach(adapter)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _attach(adapter: str) -> None:
    try:
        from importlib import import_module

        from autosched.triton.persistence.startup import DATABASE, TIMEOUT

        attach = import_module(adapter).attach_served
    except ImportError as error:
        print(
            f"autosched: {sys.executable} cannot import autosched ({error}): kernels are tuned as usual",
            file=sys.stderr,
        )
        return
    attach(os.environ[DATABASE], float(os.environ[TIMEOUT]))


def _run_shadowed_module() -> None:
    folders = [folder for folder in sys.path if os.path.abspath(folder) != _FOLDER]
    spec = PathFinder.find_spec("sitecustomize", folders)
    if spec is not None and spec.loader is not None:
        from importlib.util import module_from_spec

        spec.loader.exec_module(module_from_spec(spec))


_run_shadowed_module()
if "AUTOSCHED_SERVE_DB" in os.environ:
    sys.meta_path.insert(0, _Finder)
