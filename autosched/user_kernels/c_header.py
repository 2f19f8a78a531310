"""C header with the chosen parameter values of a kernel for each GPU, for builds without autosched."""

from __future__ import annotations

import re
from collections.abc import Mapping

from autosched.user_kernels.kernel_file import KernelFile
from autosched.user_kernels.lowering import token
from search_spaces.spaces.parameters import Value


def c_header(file: KernelFile, targets: Mapping[str, Mapping[str, Value]]) -> str:
    """Return a C header with a ``#define`` for each parameter and attribute.

    ``targets`` maps device names to configurations. The header uses the values of the device whose macro
    ``TARGET_NAME`` is defined, or of the first device if no such macro is defined. Raises ValueError if ``targets`` is
    empty.
    """
    if not targets:
        raise ValueError("a header needs the configuration of at least one device")
    guard = f"AUTOSCHED_{_macro(file.name)}_H"
    lines = [f"// Parameters of {file.name}, chosen by autosched.", f"#ifndef {guard}", f"#define {guard}", ""]
    for i, (name, config) in enumerate(targets.items()):
        lines.append(f"{'#if' if i == 0 else '#elif'} defined(TARGET_{_macro(name)})")
        lines += _defines(file, config)
    lines.append(f"#else  // as on {next(iter(targets))}")
    lines += _defines(file, next(iter(targets.values())))
    return "\n".join([*lines, "#endif", "", f"#endif  // {guard}", ""])


def _defines(file: KernelFile, config: Mapping[str, Value]) -> list[str]:
    values = file.values(dict(file.sizes), config)
    names = [p.name for p in file.parameters] + [a.name for a in file.attributes]
    return [f"#define {name} {token(values[name])}" for name in names]


def _macro(name: str) -> str:
    return re.sub(r"\W", "_", name, flags=re.ASCII).upper()
