"""Build the C++ extension for torch with the host's compiler, on first use. The compiled extension is cached.

The extension uses only torch's stable C interface, so it needs no CUDA headers. The build takes a few seconds.
"""

from __future__ import annotations

import hashlib
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path

import torch

from measurements.emulator.host.compiler import HostCompiler, HostFailure, compile_to, host_compiler, main_complaint
from measurements.files.cache_folder import CacheUnusable, cache_root, make_folder, publish
from measurements.files.file_lock import lock
from measurements.files.work_folders import temporary_folder

OLDEST_TORCH = (2, 10)  # first version of torch whose stable interface has strings and `torch_call_dispatcher`
_SOURCES = Path(__file__).parent / "csrc"
_MAIN = "host_path.cpp"
_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden")
_SECONDS = 300.0  # time limit of the compiler in seconds


class NotBuilt(RuntimeError):
    """The extension cannot be built on this machine. The message is one line with the reason."""


def extension() -> Path:
    """Return the path of the compiled extension for the installed torch, and build it if necessary.

    Raises:
        NotBuilt: Torch is too old, or there is no working compiler.
    """
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    if version < OLDEST_TORCH:
        raise NotBuilt(f"torch {torch.__version__} is older than {'.'.join(map(str, OLDEST_TORCH))}")
    try:
        compiler = host_compiler()
        folder = cache_root() / "torch"
        path = folder / f"host-path-{_digest(compiler)}.so"
        if not path.is_file():
            make_folder(folder)
            with (folder / "build.lock").open("a") as file:
                lock(file)
                if not path.is_file():
                    _build(compiler, path)
        return path
    except (HostFailure, CacheUnusable, OSError) as error:
        raise NotBuilt(str(error)) from error


@cache
def _digest(compiler: HostCompiler) -> str:
    digest = hashlib.sha256(f"{compiler.identity} {_FLAGS} {torch.__version__}".encode())
    for source in sorted(_SOURCES.iterdir()):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:32]


def _build(compiler: HostCompiler, path: Path) -> None:
    of_torch = Path(torch.__file__).parent
    linked = ("-I", str(of_torch / "include"), str(_SOURCES / _MAIN), "-L", str(of_torch / "lib"))
    with temporary_folder() as work:
        built = work / "host_path.so"
        arguments = (*_FLAGS, *linked, "-Wl,--no-as-needed", "-ltorch_cpu", "-ldl")
        log: str | None = f"the compiler did not end within {_SECONDS:.0f} s"
        with suppress(subprocess.TimeoutExpired):
            log = compile_to(built, compiler, arguments, _SECONDS)
        if log is not None:
            raise NotBuilt(f"{compiler.path} cannot compile the extension for torch: {main_complaint(log)}")
        publish(path, built.read_bytes())
