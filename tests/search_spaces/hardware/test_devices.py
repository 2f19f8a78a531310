"""The rows of the device table agree with NVIDIA's published peaks. Occupancy agrees with the CUDA toolkit's model."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.hardware.architectures import ARCHITECTURES, GENERATIONS
from search_spaces.hardware.devices import (
    Device,
    UnknownDevice,
    all_devices,
    device,
    devices_of_driver_name,
    occupancy,
    register_limit,
)

# From data sheets and white papers: dense TFLOP/s by type (TOP/s of i8). "fma" means f32 on CUDA cores.
PUBLISHED: dict[str, dict[str, float]] = {
    "h200": {"f16": 989.0, "fma": 67.0},
    "h100": {"f16": 989.4, "fma": 66.9},
    "h100_pcie": {"f16": 756.0, "fma": 51.2},
    "a100": {"f16": 312.0, "fma": 19.5},
    "a10": {"f16": 125.0, "fma": 31.2},
    "rtx3090": {"f16": 71.0, "fma": 35.6, "f16_f16": 142.0},
    "rtx4090": {"f16": 165.2, "fma": 82.6, "e4m3": 330.3},
    "l4": {"f16": 121.0, "fma": 30.3},
    "l40s": {"f16": 362.05, "fma": 91.6},
    "t4": {"f16": 65.0, "fma": 8.1, "i8": 130.0},
    "quadro_rtx6000": {"f16": 130.5, "fma": 16.3},
    "a30": {"f16": 165.0, "fma": 10.3},
    "a40": {"f16": 149.7, "fma": 37.4},
    "rtx6000ada": {"f16": 364.25, "fma": 91.1},
    "l20": {"f16": 119.5, "e4m3": 239.0, "fma": 59.35},
    "agx_orin_64": {"i8": 85.0},
    "h100_nvl": {"f16": 835.0},
    "h20": {"f16": 148.0},
    "b200": {"f16": 2250.0, "e4m3": 4500.0, "mxf4": 9000.0},
    "b300": {"f16": 2250.0, "e4m3": 4500.0},
    "gb200": {"f16": 2500.0, "e4m3": 5000.0, "nvf4": 10000.0},
    "jetson_thor": {"mxf4": 1035.0},
    "rtx5090": {"f16": 209.5, "e4m3": 419.0, "mxf8": 838.0, "nvf4": 1676.0, "fma": 104.8},
    "rtx_pro_6000": {"f16": 503.8, "fma": 126.0},
    "gb10": {"nvf4": 500.0},  # half of the published figure for sparse matrices; no clock is published
}

# Memory sizes of data sheets. Their GB are GiB: an H200 of "141 GB" reports more than 150e9 bytes.
SHEET_GIB = {
    **{"h200": 141, "h100": 80, "h100_pcie": 80, "a100": 80},
    **{"a10": 24, "rtx3090": 24, "rtx4090": 24, "l4": 24, "l40s": 48},
}

ROWS = pytest.mark.parametrize("row", all_devices(), ids=lambda row: row.name)


@pytest.mark.parametrize("name", PUBLISHED)
def test_rates_multiply_up_to_the_published_peaks(name: str) -> None:
    row = device(name)
    for kind, published in PUBLISHED[name].items():
        peak = row.fma_peak if kind == "fma" else row.tensor_peak(kind)
        assert peak / 1e12 == pytest.approx(published, rel=0.06 if name == "gb10" else 0.015), kind


@ROWS
def test_rates_of_types_are_multiples_of_each_other(row: Device) -> None:
    rates = dict(row.tensor_flops_per_cycle)
    if row.has("bf16"):
        assert rates["bf16"] == rates["f16"] == 2 * rates["tf32"]
    else:
        assert not {"bf16", "tf32"} & rates.keys()
    assert ("e4m3" in rates) == row.has("fp8_mma")
    assert ("nvf4" in rates) == (row.has("block_scale_mma") or row.has("tcgen05"))


@ROWS
def test_limits_equal_those_of_the_compute_capability(row: Device) -> None:
    """Compare with the CUDA C++ Programming Guide, technical specifications per compute capability."""
    optin, per_sm, threads, blocks = {
        75: (65536, 65536, 1024, 16),
        80: (166912, 167936, 2048, 32),
        86: (101376, 102400, 1536, 16),
        87: (166912, 167936, 1536, 16),
        89: (101376, 102400, 1536, 24),
        90: (232448, 233472, 2048, 32),
        100: (232448, 233472, 2048, 32),
        103: (232448, 233472, 2048, 32),
        110: (232448, 233472, 1536, 24),
        120: (101376, 102400, 1536, 24),
        121: (101376, 102400, 1536, 24),
    }[row.sm]
    assert (row.shared_per_block, row.shared_per_sm) == (optin, per_sm)
    assert (row.max_threads_per_sm, row.max_blocks_per_sm) == (threads, blocks)
    assert row.arch == f"sm_{row.sm}{'a' if row.sm >= 90 else ''}"


@pytest.mark.parametrize("name", SHEET_GIB)
def test_memory_equals_the_size_reported_by_the_driver(name: str) -> None:
    """The driver reports slightly less than the data sheet. GDDR6 with ECC loses a sixteenth to check bits."""
    row = device(name)
    stacked = row.sm in (80, 90)  # HBM stores check bits in separate memory
    geforce = row.name.startswith("rtx")  # ECC is off or unsupported
    sheet = SHEET_GIB[row.name] * (1.0 if stacked or geforce else 15 / 16)
    assert row.memory_bytes / 2**30 == pytest.approx(sheet, rel=0.006)
    assert row.memory_bytes <= SHEET_GIB[row.name] * 2**30


def test_common_product_names_are_known() -> None:
    """Names are accepted as on the command line and as in data sheets. A device's row lists its unconfirmed figures."""
    for name in (
        "t4",
        "a6000",
        "rtx3060",
        "rtx4070",
        "l20",
        "h100_nvl",
        "rtx5090",
        "rtx_pro_6000",
        "gb10",
        "b200",
        "b300",
    ):
        assert device(name).name == name
    assert device("RTX_A6000") is device("a6000")
    assert device("dgx_spark") is device("gb10")
    assert device("h20").note == "unconfirmed: rates"
    assert device("h200").note == ""
    assert not any(row.derived for row in all_devices())


@ROWS
def test_json_round_trip_and_hash(row: Device) -> None:
    back = Device.from_json(json.loads(json.dumps(row.to_json())))
    assert back == row
    assert hash(back) == hash(row)


def test_json_with_a_missing_or_a_foreign_field_is_rejected() -> None:
    data = device("h200").to_json()
    with pytest.raises(ValueError, match="sm_count"):
        Device.from_json({k: v for k, v in data.items() if k != "sm_count"})
    with pytest.raises(ValueError, match="cuda_cores"):
        Device.from_json({**data, "cuda_cores": 1})


def test_names_are_case_insensitive() -> None:
    assert device("H200") is device("h200")
    assert device("RTX4090").name == "rtx4090"


@pytest.mark.parametrize("name", ["H200 NVL", "h2", "h100_nv", "", "a100_48gb", "nvidia h200"])
def test_similar_names_are_not_accepted(name: str) -> None:
    with pytest.raises(UnknownDevice) as error:
        device(name)
    message = str(error.value)
    assert "\n" not in message
    assert "autosched devices lists all names" in message


def test_the_closest_name_is_offered() -> None:
    with pytest.raises(UnknownDevice, match=r"did you mean rtx4090"):
        device("rtx-4090")


@pytest.mark.parametrize("name", ["hopper", "Hopper", "sm_90", "sm_90a", "compute_90", "9.0", "sm90"])
def test_an_architecture_lists_its_gpus(name: str) -> None:
    with pytest.raises(UnknownDevice) as error:
        device(name)
    listed = str(error.value).rpartition("use one of ")[2].split(", ")
    assert listed == [row.name for row in all_devices() if row.sm == 90]


def test_a_generation_of_several_architectures_lists_all_their_gpus() -> None:
    with pytest.raises(UnknownDevice, match=r"b200.*rtx5090"):
        device("blackwell")
    named = {sm for generation in GENERATIONS.values() for sm in generation}
    assert named == set(ARCHITECTURES)


def test_driver_names_are_exact() -> None:
    for row in all_devices():
        for name in row.driver_names:
            known = devices_of_driver_name(name)
            assert row in known
            assert len(known) == 1 or name in ("Orin", "NVIDIA Thor")  # names of several devices
            assert len({(one.sm_count, one.memory_bytes) for one in known}) == len(known)
    for sibling in ("NVIDIA H200 NVX", "nvidia h200", "NVIDIA A100"):
        assert devices_of_driver_name(sibling) == ()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"sm_count": 0}, "sm_count is 0"),
        ({"dram_bandwidth": float("nan")}, "dram_bandwidth is nan"),
        ({"clock_hz": float("inf")}, "clock_hz is inf"),
        ({"arch": "sm_89"}, "arch 'sm_89'"),
        ({"name": "H200"}, "lower case"),
        ({"shared_per_block": 233472}, "must fit into shared_per_sm"),
        ({"shared_per_sm": 233500}, "multiples of 128"),
        ({"registers_per_block": 131072}, "registers_per_block"),
        ({"registers_per_sm": 65600}, "register_allocation_unit"),
        ({"max_threads_per_sm": 2040}, "multiples of warp_size"),
        ({"max_threads_per_block": 4096}, "max_threads_per_block"),
        ({"bank_bytes": 8}, "banks times bank_bytes"),
        ({"mma_sync_fraction": 1.5}, "mma_sync_fraction"),
        ({"tensor_clock_hz": 3e9}, "tensor_clock_hz"),
        ({"l2_bandwidth": 1e12}, "l2_bandwidth"),
        ({"tensor_flops_per_cycle": (("f16", 0.0),)}, "tensor rates"),
        ({"tensor_flops_per_cycle": (("f16", 8.0), ("f16", 8.0))}, "named once"),
    ],
)
def test_an_inconsistent_row_is_rejected_with_its_law(change: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match="device") as error:
        dataclasses.replace(device("h200"), **change)  # type: ignore[arg-type]
    assert complaint in str(error.value)


def test_a_type_without_tensor_rate_is_rejected() -> None:
    with pytest.raises(ValueError, match="f16, bf16, tf32"):
        device("a100").tensor_rate("f64")


# (device, threads, registers, shared bytes, blocks per SM): computed with cuda_occupancy.h of the CUDA toolkit 13.0,
# which agreed with `occupancy` on 1.6 million combinations of these four architectures.
TOOLKIT = [
    ("h200", 256, 128, 32768, 2),
    ("h200", 256, 128, 0, 2),
    ("h200", 256, 129, 0, 1),
    ("h200", 128, 168, 50000, 3),
    ("h200", 128, 64, 115712, 2),  # 2 * (113 KB + 1 KB) is exactly 228 KB
    ("h200", 128, 64, 115713, 1),
    ("h200", 32, 32, 0, 32),
    ("h200", 33, 16, 0, 32),
    ("h200", 1024, 64, 0, 1),
    ("h200", 1024, 65, 0, 0),  # 32 warps with 72 * 32 registers each exceed 65536
    ("h200", 96, 200, 0, 2),  # 6400 registers per warp: 2 warps fit in each of 4 sub-partitions
    ("h200", 256, 255, 232448, 1),
    ("h200", 256, 255, 232449, 0),
    ("a100", 256, 64, 81920, 2),
    ("a100", 256, 64, 82944, 2),
    ("a100", 256, 64, 82945, 1),
    ("a10", 128, 32, 0, 12),
    ("a10", 32, 32, 0, 16),
    ("l4", 32, 32, 0, 24),
    ("l4", 1024, 32, 0, 1),
    ("l4", 512, 32, 50176, 2),
    ("t4", 128, 32, 0, 8),
    ("t4", 32, 32, 0, 16),
    ("t4", 128, 64, 32768, 2),  # no shared memory is reserved per block
    ("t4", 128, 64, 32769, 1),  # 32769 is rounded up to a multiple of 256 bytes
    ("b200", 256, 128, 32768, 2),
    ("rtx5090", 128, 32, 0, 12),
    ("gb10", 256, 128, 49152, 2),
]


@pytest.mark.parametrize(("name", "threads", "registers", "shared", "blocks"), TOOLKIT)
def test_occupancy_agrees_with_the_cuda_toolkit(
    name: str, threads: int, registers: int, shared: int, blocks: int
) -> None:
    assert occupancy(device(name), threads, registers, shared) == blocks


def test_blocks_share_the_named_barriers_of_an_sm_since_hopper() -> None:
    for name, barriers, blocks in (
        ("a100", 5, 16),  # barriers of other blocks do not limit occupancy
        ("h200", 5, 12),
        ("b300", 5, 6),
        ("rtx5090", 5, 4),
        ("rtx5090", 1, 12),
    ):
        assert occupancy(device(name), 128, 32, 0, named_barriers=barriers) == blocks


def test_a_block_with_tensor_memory_has_an_sm_for_itself() -> None:
    assert occupancy(device("b200"), 128, 32, 0, tensor_memory=True) == 1
    assert occupancy(device("rtx5090"), 128, 32, 0, tensor_memory=True) == 0


def test_occupancy_of_arrays_agrees_with_each_element() -> None:
    rng = np.random.default_rng(1)
    t, r = rng.integers(1, 1100, 500), rng.integers(0, 260, 500)
    s = rng.integers(0, 240_000, 500)
    for row in all_devices():
        occupancies = occupancy(row, t, r, s)
        assert isinstance(occupancies, np.ndarray)
        assert occupancies.tolist() == [occupancy(row, int(a), int(b), int(c)) for a, b, c in zip(t, r, s, strict=True)]


@given(
    row=st.sampled_from(all_devices()),
    threads=st.integers(1, 1024),
    registers=st.integers(0, 255),
    shared=st.integers(0, 232448),
)
def test_more_resources_never_fit_more_blocks(row: Device, threads: int, registers: int, shared: int) -> None:
    blocks = occupancy(row, threads, registers, shared)
    assert occupancy(row, threads + 1, registers, shared) <= blocks
    assert occupancy(row, threads, registers + 1, shared) <= blocks
    assert occupancy(row, threads, registers, shared + 1) <= blocks
    warps = -(-threads // row.warp_size)
    assert blocks * warps <= row.max_warps_per_sm
    assert blocks * warps * row.warp_size * registers <= row.registers_per_sm
    assert blocks * (shared + row.reserved_shared_per_block) <= row.shared_per_sm
    assert blocks <= row.max_blocks_per_sm


@pytest.mark.parametrize("bad", [(0, 32, 0), (32, -1, 0), (32, 32, -1)])
def test_impossible_counts_are_rejected(bad: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="at least one thread"):
        occupancy(device("h200"), *bad)


@given(row=st.sampled_from(all_devices()), warps=st.integers(1, 32), data=st.data())
def test_one_more_register_than_the_limit_reduces_the_blocks_per_sm(
    row: Device, warps: int, data: st.DataObject
) -> None:
    threads = warps * row.warp_size
    blocks = data.draw(st.integers(1, int(occupancy(row, threads, 0, 0))))
    limit = int(register_limit(row, threads, blocks))
    assert occupancy(row, threads, limit, 0) >= blocks
    assert limit == row.max_registers_per_thread or occupancy(row, threads, limit + 1, 0) < blocks


def test_an_odd_warp_leaves_the_others_fewer_registers() -> None:
    """Each of the SM's four schedulers has its own registers. With 17 warps, one scheduler has five warps."""
    limits = register_limit(device("rtx5090"), np.array([256, 288, 512, 544]))
    assert limits.tolist() == [255, 168, 128, 96]
    assert int(register_limit(device("h200"), 288, 2)) == 96
    assert int(register_limit(device("h200"), 2048)) == 32
