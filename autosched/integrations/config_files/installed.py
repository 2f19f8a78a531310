"""Load the Triton kernels of an installed vLLM or SGLang without importing the package.

Importing the package would need a GPU and all its dependencies. Only functions compiled by Triton and literal constants
are loaded from the package's file. Line numbers are unchanged, so that findings refer to the package's source.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.abc import SourceLoader
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from autosched.integrations.config_files import kernels as own
from autosched.integrations.config_files.file_names import Format
from autosched.version import VERSION

# Modules that contain the kernels of each format; the module of the newest version comes first.
_MOE = {
    "vllm": ("model_executor/layers/fused_moe/fused_moe.py",),
    "sglang": (
        "kernels/ops/moe/fused_moe_triton_kernels.py",
        "srt/layers/moe/fused_moe_triton/fused_moe_triton_kernels.py",
        "srt/layers/moe/fused_moe_triton/fused_moe.py",
    ),
}
_MATMUL = {
    "vllm": ("model_executor/layers/quantization/utils/fp8_utils.py",),
    "sglang": ("kernels/ops/gemm/fp8_kernel.py", "srt/layers/quantization/fp8_kernel.py"),
}
_MATMUL_NAMES = ("_w8a8_triton_block_scaled_mm", "_w8a8_block_fp8_matmul")


@dataclass(frozen=True)
class ConfigKernel:
    """A Triton kernel. ``origin`` describes its source in a few words. ``package`` is "" for autosched's own kernel."""

    function: Any
    origin: str
    package: str = ""


def kernel_for(format: Format, moe: bool) -> ConfigKernel:
    """Return the kernel of the installed package, or autosched's own if the package is not installed."""
    names = ("fused_moe_kernel",) if moe else _MATMUL_NAMES
    for path in _files(format, (_MOE if moe else _MATMUL)[format]):
        module = _jit_functions(path)
        for name in names:
            if (function := getattr(module, name, None)) is not None:
                return ConfigKernel(function, f"{name} of {format} {_version(format)}", format)
    function = own.fused_moe_kernel if moe else own.scaled_matmul
    kernel_kind = "fused-MoE" if moe else "block-scaled"
    return ConfigKernel(function, f"autosched {VERSION}'s own {kernel_kind} kernel, because {format} is not installed")


def _files(package: str, locations: Sequence[str]) -> list[Path]:
    spec = importlib.util.find_spec(package)  # find_spec does not import a top-level package
    folders = list(spec.submodule_search_locations or ()) if spec is not None else []
    return [path for folder in folders for subfolder in locations if (path := Path(folder) / subfolder).is_file()]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(unknown version)"


class _JitFunctionsOnly(SourceLoader):
    """Module loader that drops a file's imports, and all functions that Triton does not compile."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def get_filename(self, fullname: str) -> str:
        return str(self._path)

    def get_data(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def source_to_code(self, data: Any, path: Any = "<string>") -> Any:  # type: ignore[override]
        tree = ast.parse(data, str(path))
        tree.body = [node for node in tree.body if _is_jit(node) or _is_constant(node)]
        return compile(tree, str(path), "exec", dont_inherit=True)

    def exec_module(self, module: Any) -> None:
        import triton
        import triton.language as tl

        module.__dict__.update(triton=triton, tl=tl)
        super().exec_module(module)


def _jit_functions(path: Path) -> Any:
    name = f"autosched_kernels_of_{path.stem}"
    spec = ModuleSpec(name, _JitFunctionsOnly(path), origin=str(path))
    spec.has_location = True
    module = importlib.util.module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    return module


def _is_jit(node: ast.stmt) -> bool:
    if not isinstance(node, ast.FunctionDef):
        return False
    plain = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    if [ast.unparse(d) for d in plain] != ["triton.jit"]:
        return False
    # Drop decorator arguments, which may use names that are not loaded. The compiled code is the same without them.
    node.decorator_list = plain
    return True


def _is_constant(node: ast.stmt) -> bool:
    value = getattr(node, "value", None)
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "tl.constexpr" and value.args:
        value = value.args[0]
    return isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(value, ast.Constant)
