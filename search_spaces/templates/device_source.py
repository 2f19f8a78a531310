"""The CUDA C++ behind a template, and the kernel source that instantiates it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from search_spaces.operators.problem import Operand
from search_spaces.templates.kernel import Kernel, headers_digest

_OURS = "autosched"  # the package whose headers every template may include


@cache
def include_dir(package: str = _OURS) -> str:
    """The folder of a package that its headers are found in: ``include``."""
    return str(resources.files(package).joinpath("include"))


@dataclass(frozen=True)
class DeviceSource:
    """``entry`` is a device function template over ``Config`` in ``header``, which lies in the folder ``include`` of
    ``package``. It takes a kernel's arguments in order."""

    header: str
    entry: str
    package: str = _OURS

    @property
    def include_dirs(self) -> tuple[str, ...]:
        return tuple(include_dir(package) for package in dict.fromkeys((self.package, _OURS)))

    @property
    def digest(self) -> str:
        """Of every header that the source may include."""
        parts = (self.header, self.entry, *(headers_digest(folder) for folder in self.include_dirs))
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def kernel(
        self,
        name: str,
        *,
        members: Sequence[str],
        arguments: Sequence[Operand],
        call: Sequence[str],
        blocks: int,
        threads: int,
        min_blocks: int,
        dynamic_shared_bytes: int,
        launches: int = 1,
    ) -> Kernel:
        """A kernel whose ``Config`` has the lines ``members``.

        ``arguments`` are its parameters in order, workspaces included; ``call`` are the arguments of ``entry``: names
        of parameters, or ``nullptr``. ``min_blocks`` is the blocks per SM that the compiler limits registers for.
        """
        entry = f"autosched_{name}"
        lines = "\n".join(f"  {line}" for line in members)
        parameters = ", ".join(_parameter(operand) for operand in arguments)
        return Kernel(
            name=entry,
            source=(
                f"#include <{self.header}>\n\n"
                f"struct Config {{\n{lines}\n}};\n\n"
                f'extern "C" __global__ void __launch_bounds__({threads}, {min_blocks})\n'
                f"{entry}({parameters}) {{\n"
                f"  {self.entry}<Config>({', '.join(call)});\n"
                f"}}\n"
            ),
            include_dirs=self.include_dirs,
            arguments=tuple(arguments),
            grid=(blocks, 1, 1),
            block=(threads, 1, 1),
            dynamic_shared_bytes=dynamic_shared_bytes,
            launches=launches,
        )


def _parameter(operand: Operand) -> str:
    const = "const " if operand.role == "input" else ""
    return f"{const}{operand.dtype.c_name}* __restrict__ {operand.name}"
