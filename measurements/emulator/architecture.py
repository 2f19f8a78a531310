"""Choose the architecture for which a kernel is compiled to the PTX that the emulator executes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers, included
from search_spaces.launches.tensor_map import TensorMap

BLACKWELL_ARCH = "compute_100a"
HOPPER_ARCH = "compute_90a"
TURING = "sm_75"  # sm_75 has its own kernel templates, whose kernels are always compiled for sm_75
ADA_ARCH = "compute_89"
ORDINARY_ARCH = "compute_80"

_ARCH_MACRO = "__CUDA_ARCH_"  # common prefix of __CUDA_ARCH__ and similar macros
# If this pattern matches, a kernel needs sm_89: mma.sync with 8-bit floats.
_ADA = re.compile(r"\bmma\.sync\.[\w.]+\.e[45]m[23]\b")
# Words that show that a kernel needs sm_100a: tensor memory, cluster launch control, and TMA copies of four rows.
_BLACKWELL = ("tcgen05", "clusterlaunchcontrol", "gather4", "scatter4")
# Words that show that a kernel needs sm_90 or sm_90a: instructions in inline PTX, and names that CUDA's headers declare
# only for these architectures.
_HOPPER = (
    *("wgmma", "setmaxnreg", "mbarrier", "mapa", "stmatrix", "griddepcontrol", "elect.sync", "cp.async.bulk"),
    *("barrier.cluster", "tensormap", "multimem", "__cluster_dims__"),
    *("this_cluster", "cluster_group", "cudaGridDependencySynchronize", "cudaTriggerProgrammaticLaunchCompletion"),
)


def ptx_arch(kernel: GeneratedKernel) -> str:
    """Return the architecture that the kernel is compiled for.

    This is the device's architecture if it is sm_75 or if the source depends on it (``__CUDA_ARCH__``). Otherwise it is
    the oldest architecture that has the instructions of the source.
    """
    if kernel.arch == TURING:
        return TURING.replace("sm_", "compute_")
    if kernel.arch and _depends_on_arch(kernel.source, kernel.headers):
        return kernel.arch.replace("sm_", "compute_")
    arch = source_arch(kernel.source, kernel.headers)
    return HOPPER_ARCH if _launched_for_hopper(kernel) and arch != BLACKWELL_ARCH else arch


def _launched_for_hopper(kernel: GeneratedKernel) -> bool:
    return kernel.cluster != (1, 1, 1) or any(isinstance(a, TensorMap) for a in kernel.arguments)


@lru_cache(maxsize=1024)
def _arch_of(text: str) -> str:
    if _names(text, _BLACKWELL):
        return BLACKWELL_ARCH
    if _names(text, _HOPPER):
        return HOPPER_ARCH
    return ADA_ARCH if "mma.sync" in text and _ADA.search(text) else ORDINARY_ARCH


def _names(text: str, words: tuple[str, ...]) -> bool:
    """Return True if one of ``words`` occurs in ``text`` as a whole word."""
    # The substring search comes first, because it is much faster than the pattern, and most texts contain none of the
    # words.
    names = [re.escape(word) for word in words if word in text]
    return bool(names) and re.search(rf"\b({'|'.join(names)})\b", text) is not None


@lru_cache(maxsize=256)
def source_arch(source: str, headers: Headers) -> str:
    """Return the oldest architecture that has the instructions of a CUDA source and its included headers."""
    needed = {_arch_of(text) for text in _used(source, headers)}
    return next(arch for arch in (BLACKWELL_ARCH, HOPPER_ARCH, ADA_ARCH, ORDINARY_ARCH) if arch in needed)


@lru_cache(maxsize=256)
def _depends_on_arch(source: str, headers: Headers) -> bool:
    return any(_ARCH_MACRO in text for text in _used(source, headers))


def _used(source: str, headers: Headers) -> Iterable[str]:
    """Return one text with the source and the headers that the source includes."""
    texts = dict(headers.files)
    used: dict[str, str] = {"": source}
    pending = [source]
    while pending:
        for name in included(pending.pop()):
            if name in texts and name not in used:
                used[name] = texts[name]
                pending.append(texts[name])
    return used.values()
