"""Compute capabilities as data rows: limits of an SM, and *features*, which are instructions that the SM has.

A higher compute capability need not have the features of a lower one: 12.0 has TMA but neither wgmma nor tcgen05, and
10.0 has no block-scaled mma.sync. So code tests features by name, and never compares numbers of compute capabilities. A
new architecture is one more row.

Limits are from ``cuda_occupancy.h`` of CUDA 13.5 and from libcudacxx's ``arch_traits.h``, which agree. An architecture
has a feature if NVRTC 13.5 compiles the feature's instructions for this architecture; a test compiles one kernel per
feature.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

# Suffix of the compilation targets that have a feature: "" for all targets, "f" for suffixes a and f (architecture- and
# family-specific), "a" for suffix a only.
Scope = Literal["", "f", "a"]


class ArchitectureFeature(NamedTuple):
    """A group of instructions; an architecture has either all of them or none.

    Attributes:
        since: The first target that has the feature, for error messages.
        doc: Description of the instructions.
        scope: Targets that have the feature: "" for all targets, "f" for suffixes a and f, "a" for suffix a only.
    """

    name: str
    since: str
    doc: str
    scope: Scope = ""


FEATURES: dict[str, ArchitectureFeature] = {
    row.name: row
    for row in (
        ArchitectureFeature("mma_k16", "sm_80", "mma.sync m16n8k16 of f16 and bf16, m16n8k8 of tf32, m16n8k32 of i8"),
        ArchitectureFeature("bf16", "sm_80", "conversions to bf16, and fma of bf16"),
        ArchitectureFeature("cp_async", "sm_80", "cp.async, and mbarriers in shared memory"),
        ArchitectureFeature("l2_256b", "sm_80", "loads that prefetch 256 bytes into L2, and L2 cache policies"),
        ArchitectureFeature("max_nan", "sm_80", "max.NaN.f32"),
        ArchitectureFeature("redux", "sm_80", "redux.sync of integers"),
        ArchitectureFeature("native_int4_mma", "sm_75", "mma.sync of int4 in hardware, without unpacking to i8"),
        ArchitectureFeature("fp8_convert", "sm_89", "conversions of e4m3 and e5m2"),
        ArchitectureFeature("fp8_mma", "sm_89", "mma.sync m16n8k32 of e4m3 and e5m2"),
        ArchitectureFeature("native_fp8_mma", "sm_89", "mma.sync of fp8 in hardware, without conversion to f16"),
        ArchitectureFeature("stmatrix", "sm_90", "stmatrix"),
        ArchitectureFeature("bf16_atomics", "sm_90", "red and atom of bf16"),
        ArchitectureFeature("tma", "sm_90", "tensor maps, cp.async.bulk, mbarrier transactions"),
        ArchitectureFeature("clusters", "sm_90", "clusters of blocks with distributed shared memory"),
        ArchitectureFeature("multicast", "sm_90", "TMA multicast in hardware"),
        ArchitectureFeature("programmatic_launch", "sm_90", "griddepcontrol"),
        ArchitectureFeature("setmaxnreg", "sm_90a", "setmaxnreg, which moves registers between warpgroups", "f"),
        ArchitectureFeature("wgmma", "sm_90a", "wgmma", "f"),
        ArchitectureFeature("cluster_launch_control", "sm_100", "clusterlaunchcontrol.try_cancel"),
        ArchitectureFeature("gather4", "sm_100", "TMA gather of four rows into the block's own shared memory"),
        ArchitectureFeature("ld_256_bit", "sm_100", "loads and stores of 32 bytes"),
        ArchitectureFeature("fma_f32x2", "sm_100", "fma of two f32 at a time"),
        ArchitectureFeature("fp4_convert", "sm_100a", "conversions of e2m1, e2m3, e3m2 and ue8m0", "f"),
        ArchitectureFeature("ldmatrix_b8_trans", "sm_100a", "ldmatrix m16n16 of bytes, transposed", "f"),
        ArchitectureFeature("tcgen05", "sm_100a", "tensor memory and tcgen05.mma", "f"),
        ArchitectureFeature("tcgen05_i8", "sm_100a", "tcgen05.mma of i8", "a"),
        ArchitectureFeature("tcgen05_ld_red", "sm_103a", "tcgen05.ld with a reduction", "f"),
        ArchitectureFeature("redux_f32", "sm_100a", "redux.sync of f32", "f"),
        ArchitectureFeature("narrow_mma", "sm_120a", "mma.sync of e2m1, e2m3 and e3m2", "f"),
        ArchitectureFeature(
            "block_scale_mma", "sm_120a", "mma.sync of mxf8f6f4, mxf4 and mxf4nvf4 with block scales", "f"
        ),
    )
}

_TURING = frozenset({"native_int4_mma"})
_AMPERE = _TURING | {"mma_k16", "bf16", "cp_async", "l2_256b", "max_nan", "redux"}
_ADA = _AMPERE | {"fp8_convert", "fp8_mma", "native_fp8_mma"}
_SINCE_HOPPER = (_ADA - {"native_int4_mma", "native_fp8_mma"}) | {
    "stmatrix",
    "bf16_atomics",
    "tma",
    "clusters",
    "programmatic_launch",
    "setmaxnreg",
}
_HOPPER = _SINCE_HOPPER | {"multicast", "wgmma"}
_SINCE_BLACKWELL = _SINCE_HOPPER | {
    "cluster_launch_control",
    "gather4",
    "ld_256_bit",
    "fma_f32x2",
    "fp4_convert",
    "ldmatrix_b8_trans",
}
_TENSOR_MEMORY = _SINCE_BLACKWELL | {"multicast", "tcgen05"}
_RTX_BLACKWELL = _SINCE_BLACKWELL | {"native_fp8_mma", "narrow_mma", "block_scale_mma"}


@dataclass(frozen=True)
class Architecture:
    """One compute capability. Sizes are bytes, and counts are per SM unless stated otherwise.

    Attributes:
        sm: 10 * major + minor.
        shared_per_block: Maximum dynamic shared memory of a block, with opt-in.
        reserved_shared: Additional shared memory per block that the driver reserves.
        shared_unit: Allocation unit of shared memory.
        named_barriers: Number of named barriers that all blocks of an SM share; 0 if each block has 16 of its own.
        tensor_memory_blocks: Number of blocks per SM that can hold tensor memory at the same time; 0 without tensor
            memory.
        cuda: The first CUDA toolkit that compiles for the architecture.
    """

    sm: int
    chips: str
    features: frozenset[str]
    shared_per_sm: int
    shared_per_block: int
    threads: int
    blocks: int
    cuda: str
    reserved_shared: int = 1024
    shared_unit: int = 128
    registers: int = 65536
    named_barriers: int = 0
    tensor_memory_blocks: int = 0

    def __post_init__(self) -> None:
        unknown = self.features - FEATURES.keys()
        if unknown:
            raise ValueError(f"sm_{self.sm}: unknown features {', '.join(sorted(unknown))}")

    @property
    def major(self) -> int:
        """Major compute capability."""
        return self.sm // 10

    @property
    def targets(self) -> tuple[str, ...]:
        """Compilation targets. The first target has all features."""
        suffixes = ("a", "f", "") if self.major >= 10 else ("a", "") if self.major == 9 else ("",)
        return tuple(f"sm_{self.sm}{suffix}" for suffix in suffixes)

    def features_of(self, target: str) -> frozenset[str]:
        """Return the features available to code compiled for ``target``, one of ``targets``."""
        if target.endswith("a"):
            return self.features
        wanted = ("", "f") if target.endswith("f") else ("",)
        return frozenset(name for name in self.features if FEATURES[name].scope in wanted)


_KIB = 1024


def _row(sm: int, chips: str, features: frozenset[str], shared: int, threads: int, blocks: int, cuda: str,
         named_barriers: int = 0, tensor_memory_blocks: int = 0) -> Architecture:  # fmt: skip
    """Return the row of an architecture from sm_80 on, where the driver reserves 1 KiB of shared memory per block."""
    return Architecture(
        sm, chips, features, shared * _KIB, (shared - 1) * _KIB, threads, blocks, cuda,
        named_barriers=named_barriers, tensor_memory_blocks=tensor_memory_blocks,
    )  # fmt: skip


ARCHITECTURES: dict[int, Architecture] = {
    row.sm: row
    for row in (
        Architecture(75, "TU10x", _TURING, 64 * _KIB, 64 * _KIB, 1024, 16, "10.0", reserved_shared=0, shared_unit=256),
        _row(80, "GA100", _AMPERE, 164, 2048, 32, "11.0"),
        _row(86, "GA10x", _AMPERE, 100, 1536, 16, "11.1"),
        _row(87, "Orin", _AMPERE, 164, 1536, 16, "11.4"),
        _row(89, "AD10x", _ADA, 100, 1536, 24, "11.8"),
        _row(90, "GH100", _HOPPER, 228, 2048, 32, "11.8", 64),
        _row(100, "B100, B200", _TENSOR_MEMORY | {"tcgen05_i8", "redux_f32"}, 228, 2048, 32, "12.8", 64, 1),
        _row(103, "B300", _TENSOR_MEMORY | {"tcgen05_ld_red", "redux_f32"}, 228, 2048, 32, "12.9", 32, 1),
        _row(110, "Thor", _TENSOR_MEMORY | {"tcgen05_i8", "tcgen05_ld_red"}, 228, 1536, 24, "13.0", 24, 1),
        _row(120, "GB20x", _RTX_BLACKWELL, 100, 1536, 24, "12.8", 24),
        _row(121, "GB10", _RTX_BLACKWELL, 100, 1536, 24, "12.9", 24),
    )
}


# Compute capabilities by NVIDIA's name of their architecture.
GENERATIONS: dict[str, tuple[int, ...]] = {
    "turing": (75,),
    "ampere": (80, 86, 87),
    "ada": (89,),
    "lovelace": (89,),
    "ada lovelace": (89,),
    "hopper": (90,),
    "blackwell": (100, 103, 110, 120, 121),
}
_CAPABILITY = re.compile(r"(?:sm_?|compute_?|cc ?)?(\d{2,3}|\d{1,2}\.\d)[af]?")


def capabilities_called(name: str) -> tuple[int, ...]:
    """Return the compute capabilities that a name such as "hopper", "sm_90a" or "9.0" means; () for other names."""
    lower = " ".join(name.lower().replace("_", " ").replace("-", " ").split())
    number = _CAPABILITY.fullmatch(name.lower())
    return GENERATIONS.get(lower) or ((int(number[1].replace(".", "")),) if number else ())


class UnknownArchitecture(ValueError):
    """The compute capability has no row. The message is one line."""


def architecture(sm: int) -> Architecture:
    """Return the row of a compute capability, such as 90 for 9.0.

    An unknown minor version of a known major version runs code for the nearest lower minor version. So the returned row
    has the portable features of that version (CUDA C++ Programming Guide, "Binary compatibility").

    Raises:
        UnknownArchitecture: The compute capability has no row.
    """
    row = ARCHITECTURES.get(sm)
    if row is not None:
        return row
    lower = [row for row in ARCHITECTURES.values() if row.major == sm // 10 and row.sm < sm]
    if not lower:
        known = f"{min(ARCHITECTURES) / 10} to {max(ARCHITECTURES) / 10}"
        older = "older than Turing and not supported by CUDA 13" if sm < min(ARCHITECTURES) else "not known yet"
        raise UnknownArchitecture(f"compute capability {sm / 10} is {older}: autosched supports {known}")
    nearest = lower[-1]
    return dataclasses.replace(nearest, features=nearest.features_of(f"sm_{nearest.sm}"))
