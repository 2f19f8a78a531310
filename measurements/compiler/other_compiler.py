"""The NVRTC of another Python environment, to compare two compilers on one kernel.

The Python of that environment runs autosched's compile worker. The environment needs ``cuda.bindings`` and NVRTC, but
not autosched.
"""

from __future__ import annotations

from typing import NamedTuple, Self

from measurements.workers.transport import WorkerDied, WorkerError
from measurements.workers.worker import Worker

COMPILER_MODULE = "measurements.compiler.nvrtc_worker"
MEMORY_LIMIT = 8 << 30  # limit of the address space of a compiler process in bytes
_SECONDS = 60.0  # time limit in seconds for loading NVRTC


class NoOtherCompiler(ValueError):
    """The other environment cannot compile. The message is one line with the remedy."""


class OtherCompiler(NamedTuple):
    """The NVRTC of an environment: the path of its Python, and its version such as "nvrtc 13.0.88"."""

    python: str
    toolchain: str

    @classmethod
    def of(cls, python: str) -> Self:
        """Return the compiler of the environment whose interpreter is ``python``. Raises NoOtherCompiler."""
        worker = Worker(COMPILER_MODULE, python=python, memory_limit=MEMORY_LIMIT)
        try:
            answer = worker.request({"version": True}, _SECONDS)
        except OSError as error:
            why = f"{python} cannot be run ({error.strerror}): give the path of an environment's Python"
            raise NoOtherCompiler(why) from None
        except WorkerDied as error:
            last = next((line for line in reversed(error.stderr.splitlines()) if line.strip()), str(error))
            raise NoOtherCompiler(
                f"{python} cannot load a compiler ({last.strip()}): install Python 3.11 or newer, "
                "cuda-bindings and nvidia-cuda-nvrtc"
            ) from None
        except WorkerError as error:
            raise NoOtherCompiler(f"{python} cannot compile: {error}") from None
        finally:
            worker.close()
        return cls(python, str(answer["toolchain"]))
