"""For which architecture a kernel is compiled to the PTX that the emulator executes."""

from __future__ import annotations

import re
from functools import lru_cache

from search_spaces.templates.headers import Headers
from search_spaces.templates.kernel import Kernel
from search_spaces.templates.tensor_map import TensorMap

HOPPER_ARCH = "compute_90a"
ADA_ARCH = "compute_89"
ORDINARY_ARCH = "compute_80"

_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[>"]', re.MULTILINE)
# 8-bit floats of mma.sync.
ADA = re.compile(r"\bmma\.sync\.[\w.]+\.e[45]m[23]\b")
# Instructions of sm_90 and sm_90a in inline PTX.
HOPPER = re.compile(
    r"\b(wgmma|setmaxnreg|mbarrier|mapa|stmatrix|griddepcontrol|elect\.sync|cp\.async\.bulk|barrier\.cluster|__cluster_dims__)\b"
)


def ptx_arch(kernel: Kernel) -> str:
    """The architecture whose PTX is executed: sm_90a or sm_89 for what only those have."""
    return HOPPER_ARCH if _launched_for_hopper(kernel) else source_arch(kernel.source, kernel.headers)


def _launched_for_hopper(kernel: Kernel) -> bool:
    return kernel.cluster != (1, 1, 1) or any(isinstance(a, TensorMap) for a in kernel.arguments)


@lru_cache(maxsize=256)
def _included(source: str, headers: Headers) -> tuple[str, ...]:
    """The names of the headers that ``source`` includes, those that they include with them."""
    texts = dict(headers.files)
    found: dict[str, None] = {}
    pending = [source]
    while pending:
        for name in _INCLUDE.findall(pending.pop()):
            if name in texts and name not in found:
                found[name] = None
                pending.append(texts[name])
    return tuple(found)


@lru_cache(maxsize=256)
def source_arch(source: str, headers: Headers) -> str:
    """The architecture of CUDA source: sm_90a or sm_89 where it, or a header that it includes, has instructions of
    that."""
    texts = dict(headers.files)
    used = (source, *(texts[name] for name in _included(source, headers)))
    for pattern, arch in ((HOPPER, HOPPER_ARCH), (ADA, ADA_ARCH)):
        if any(pattern.search(text) for text in used):
            return arch
    return ORDINARY_ARCH
