"""In the table of architectures, features agree with the compiler, and limits agree with the CUDA toolkit."""

import pytest
from feature_snippets import PTX, SPEED, kernel
from needs import needs_nvrtc

from measurements.compiler.nvrtc import compile_source
from search_spaces.hardware.architectures import (
    ARCHITECTURES,
    FEATURES,
    Architecture,
    UnknownArchitecture,
    architecture,
)
from search_spaces.launches.headers import Headers

ROWS = list(ARCHITECTURES.values())
TARGETS = [(row, target) for row in ROWS for target in row.targets]


def compiles(arch: str, *features: str) -> str:
    """Return NVRTC's log if it cannot compile the kernel, else ""."""
    output = compile_source(kernel(*features), "probe", arch, Headers())
    return "" if output.cubin is not None else output.log


def test_every_feature_is_tried() -> None:
    assert PTX.keys() | SPEED == FEATURES.keys()


@needs_nvrtc
@pytest.mark.parametrize(("row", "target"), TARGETS, ids=[target for _, target in TARGETS])
def test_the_compiler_accepts_the_features_of_the_table(row: Architecture, target: str) -> None:
    """Compile code that uses all features of a target."""
    assert compiles(target, *sorted(row.features_of(target) - SPEED)) == ""


@needs_nvrtc
@pytest.mark.parametrize(
    ("target", "feature"),
    [
        ("sm_75", "cp_async"),
        ("sm_75", "max_nan"),
        ("sm_86", "fp8_mma"),
        ("sm_89", "tma"),
        ("sm_90", "setmaxnreg"),
        ("sm_100a", "wgmma"),
        ("sm_100", "tcgen05"),
        ("sm_103a", "tcgen05_i8"),
        ("sm_100a", "block_scale_mma"),
        ("sm_120a", "tcgen05"),
        ("sm_120", "block_scale_mma"),
    ],
)
def test_the_compiler_rejects_features_outside_the_table(target: str, feature: str) -> None:
    assert feature not in architecture(int(target[3:].rstrip("af"))).features_of(target)
    assert compiles(target, feature)


@needs_nvrtc
@pytest.mark.nightly
@pytest.mark.parametrize(("row", "target"), TARGETS, ids=[target for _, target in TARGETS])
def test_every_row_of_the_table(row: Architecture, target: str) -> None:
    accepted = {name for name in PTX if not compiles(target, name)}
    assert accepted == row.features_of(target) - SPEED


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row.sm))
def test_limits_agree_with_each_other(row: Architecture) -> None:
    assert row.shared_per_block + row.reserved_shared == row.shared_per_sm
    assert row.features_of(row.targets[0]) == row.features
    assert all(row.features_of(plain) <= row.features for plain in row.targets)
    assert ("tcgen05" in row.features) == (row.tensor_memory_blocks > 0)
    assert not {"wgmma", "tcgen05"} <= row.features  # no architecture has both


def test_a_later_minor_version_has_the_portable_features_of_the_nearest() -> None:
    later = architecture(107)
    assert later.sm == 103
    assert "tma" in later.features and "tcgen05" not in later.features
    assert architecture(88).sm == 87


@pytest.mark.parametrize(
    ("sm", "reason"), [(70, "older than Turing"), (61, "older than Turing"), (130, "not known yet")]
)
def test_other_major_versions_are_rejected_in_one_line(sm: int, reason: str) -> None:
    with pytest.raises(UnknownArchitecture, match=reason) as error:
        architecture(sm)
    assert "\n" not in str(error.value)
