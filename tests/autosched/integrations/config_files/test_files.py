"""Names and contents of tuned-configuration files are checked before anything is compiled."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from needs import needs_torch

from autosched.integrations.config_files.file_names import (
    FileName,
    NotAConfigFile,
    file_device_of_row,
    parse_file_name,
    row_of_file_device,
)
from autosched.integrations.config_files.files import NoConfigs, read_file, read_folder
from autosched.integrations.config_files.ladder import ladder_notes
from autosched.registry import CONFIG_FILES
from autosched.regression.config_files import recognised_files
from search_spaces.hardware.devices import all_devices, device

WITHOUT_TORCH = """
import sys
sys.modules |= dict.fromkeys(("torch", "triton"))  # imports of these fail
from autosched.integrations.config_files import file_names, files
"""
GOOD = {"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1, "num_warps": 4, "num_stages": 3}
H100 = "E=8,N=7168,device_name=NVIDIA_H100_80GB_HBM3"

names = st.builds(
    FileName,
    experts=st.integers(1, 512),
    n=st.integers(1, 2**15),
    k=st.just(0),
    device_name=st.sampled_from(["NVIDIA_H200", "AMD_Instinct_MI300X", "NVIDIA_H20-3e", "Intel(R)_Arc(TM)_Pro_B70"]),
    dtype=st.sampled_from(["", "fp8_w8a8", "int4_w4a16"]),
    block_shape=st.none() | st.tuples(st.integers(1, 256), st.integers(1, 256)),
    per_channel=st.booleans(),
    down=st.booleans(),
    rest=st.just(()) | st.just((("backend", "flydsl"),)),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(names, st.sampled_from(["vllm", "sglang"]))
def test_a_name_that_is_written_is_read_again(name: FileName, format: str) -> None:
    assert parse_file_name(name.text(format)) == name  # type: ignore[arg-type]


def test_the_file_name_of_a_matmul_has_k_instead_of_experts() -> None:
    name = parse_file_name("N=1536,K=7168,device_name=NVIDIA_L40S,dtype=fp8_w8a8,block_shape=[128, 128].json")
    assert (name.is_moe, name.n, name.k, name.block_shape) == (False, 1536, 7168, (128, 128))
    assert name.device is device("l40s")


@pytest.mark.parametrize(
    "name",
    [
        "config.json", "E=8.json", "E=8,N=x,device_name=a.json", "E=8,N=64,device_name=a.txt",
        "E=8,E=9,N=4,device_name=a.json", "E=8,N=64,K=64,device_name=a.json", "N=64,device_name=a.json",
        "E=8,N=64,device_name=a,block_shape=[128].json",
    ],
)  # fmt: skip
def test_names_of_other_files_are_rejected(name: str) -> None:
    with pytest.raises(NotAConfigFile) as caught:
        parse_file_name(name)
    assert "\n" not in str(caught.value)


def test_devices_of_files_are_rows() -> None:
    assert row_of_file_device("NVIDIA_H100_80GB_HBM3") is device("h100")
    assert row_of_file_device("NVIDIA_GeForce_RTX_4090") is device("rtx4090")
    assert row_of_file_device("AMD_Instinct_MI300X") is None
    for row in all_devices():
        if row.driver_names:
            matched = row_of_file_device(file_device_of_row(row, "sglang"))
            assert matched is not None and matched.driver_names[0] == row.driver_names[0]
    assert file_device_of_row(device("h200_nvl"), "vllm") == "NVIDIA_H200"


def write(folder: Path, name: str, text: str | dict[str, object]) -> Path:
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / name
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return path


def test_a_good_file(tmp_path: Path) -> None:
    file = read_file(write(tmp_path, f"{H100}.json", {"triton_version": "3.4.0", "64": GOOD, "1": GOOD}))
    assert file.triton == "3.4.0" and not file.faults
    assert [entry.size for entry in file.entries] == [1, 64] and not any(entry.fault for entry in file.entries)


def test_tiles_of_few_rows_or_columns_are_legal(tmp_path: Path) -> None:
    """Triton pads small tiles to the tensor core's shape. vLLM ships files with a BLOCK_SIZE_M of 8."""
    small = {"1": GOOD | {"BLOCK_SIZE_M": 8}, "2": GOOD | {"BLOCK_SIZE_N": 8}}
    assert not any(entry.fault for entry in read_file(write(tmp_path, f"{H100}.json", small)).entries)


def test_the_version_may_be_the_folder_s(tmp_path: Path) -> None:
    assert read_file(write(tmp_path / "triton_3_4_0", f"{H100}.json", {"1": GOOD})).triton == "3.4.0"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read as JSON"), ("[1]", "not an object"), ("{}", "contains no configuration"),
        ('{"1": {"a": NaN}}', "NaN"), ("[" * 100_000, "cannot be read as JSON"), ('{"0": {}}', "is not a batch size"),
        (f'{{"16": {json.dumps(GOOD)}, "016": {json.dumps(GOOD)}}}', "16 occurs twice"),
    ],
)  # fmt: skip
def test_faults_of_a_file(tmp_path: Path, text: str, words: str) -> None:
    file = read_file(write(tmp_path, f"{H100}.json", text))
    assert any(words in fault for fault in file.faults), file.faults


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"BLOCK_SIZE_M": 48}, "BLOCK_SIZE_M is 48"), ({"BLOCK_SIZE_N": 0}, "BLOCK_SIZE_N is 0"),
        ({"BLOCK_SIZE_K": 8}, "BLOCK_SIZE_K is 8"),
        ({"num_warps": 3}, "num_warps is 3"), ({"num_warps": 64}, "num_warps is 64"),
        ({"num_stages": -1}, "num_stages"),
        ({"GROUP_SIZE_M": 0}, "GROUP_SIZE_M is 0"), ({"num_warps": "4"}, 'num_warps is "4"'),
    ],
)  # fmt: skip
def test_entries_with_invalid_parameters_are_reported(tmp_path: Path, change: dict[str, object], words: str) -> None:
    (entry,) = read_file(write(tmp_path, f"{H100}.json", {"1": GOOD | change})).entries
    assert words in entry.fault


def test_invalid_entries_are_reported(tmp_path: Path) -> None:
    without = {key: value for key, value in GOOD.items() if key != "GROUP_SIZE_M"}
    file = read_file(write(tmp_path, f"{H100}.json", {"1": None, "2": without}))
    assert [entry.fault for entry in file.entries] == [
        "the entry is not an object with BLOCK_SIZE_M and other parameters",
        "GROUP_SIZE_M is missing",
    ]


def test_files_that_contradict_each_other(tmp_path: Path) -> None:
    shape = ",dtype=fp8_w8a8,block_shape=[128,128]"
    write(tmp_path, f"{H100}{shape}.json", {"1": GOOD})
    write(tmp_path, f"{H100}{shape.replace('8,1', '8, 1')}.json", {"1": GOOD | {"num_warps": 8}})
    files, _ = read_folder(tmp_path, "vllm")
    faults = [fault for file in files for fault in file.faults]
    assert sum("is for the same layer, but has other values" in fault for fault in faults) == 2
    assert sum("never use this file" in fault for fault in faults) == 1


def test_vllm_calls_the_family_of_the_h200_by_one_name(tmp_path: Path) -> None:
    write(tmp_path, "E=8,N=64,device_name=NVIDIA_H200_NVL.json", {"1": GOOD})
    (file,), _ = read_folder(tmp_path, "vllm")
    assert file.faults == ("programs never use this file, because they look for E=8,N=64,device_name=NVIDIA_H200.json",)
    (file,), _ = read_folder(tmp_path, "sglang")
    assert not file.faults


def test_different_block_size_m_in_an_sglang_pair_is_reported(tmp_path: Path) -> None:
    write(tmp_path, f"{H100}.json", {"8": GOOD})
    write(tmp_path, f"{H100}_down.json", {"8": GOOD | {"BLOCK_SIZE_M": 64}})
    files, _ = read_folder(tmp_path, "sglang")
    (note,) = [note for file in files for note in file.notes]
    assert "BLOCK_SIZE_M is 64 here and 16" in note


def test_folders_without_config_files_are_rejected(tmp_path: Path) -> None:
    write(tmp_path, "other.json", {})
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(NoConfigs):
            read_folder(folder, "vllm")


def test_the_ladder(tmp_path: Path) -> None:
    sizes = {1: 16, 2: 16, 4: 128, 8: 16, 64: 16, 128: 64, 512: 64, 1024: 64}
    file = read_file(write(tmp_path, f"{H100}.json", {str(m): GOOD | {"BLOCK_SIZE_M": b} for m, b in sizes.items()}))
    notes = ladder_notes(file.entries)
    assert len(notes) == 2
    assert "between 8 and 64 rows" in notes[0] and "up to 36 rows" in notes[0]
    assert "16, 128, 16 at 2, 4, 8 rows" in notes[1]
    ends = ladder_notes([entry for entry in file.entries if 2 <= entry.size <= 128 and entry.size != 4])
    assert "2 rows" in ends[0] and "128 rows" in ends[-1]
    full = {str(2**k): GOOD for k in range(13)}
    assert ladder_notes(read_file(write(tmp_path, f"{H100}.json", full)).entries) == []


def test_files_are_read_without_torch_and_triton() -> None:
    assert subprocess.run([sys.executable, "-c", WITHOUT_TORCH], timeout=120, check=False).returncode == 0


VERSION = {"triton_version": "3.4.0"}


def folder_of(folder: Path, files: dict[str, dict[str, object]]) -> Path:
    for name, more in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({**more, "1": GOOD}))
    return folder


@pytest.mark.parametrize(
    ("format", "files"),
    [
        ("vllm", {f"{H100}.json": VERSION}),
        ("vllm", {f"{H100}.json": {}, f"{H100},dtype=fp8_w8a8,block_shape=[128,128].json": {}}),
        ("vllm", {f"{H100}.json": VERSION, f"triton_3_4_0/{H100},block_shape=[128,128].json": {}}),
        ("sglang", {f"triton_3_4_0/{H100}.json": {}}),
        ("sglang", {f"{H100},dtype=fp8_w8a8,block_shape=[128, 128].json": {}}),
        ("sglang", {f"{H100}.json": {}, f"{H100}_down.json": {}}),
    ],
)
@needs_torch
def test_the_format_of_a_folder_is_recognised(tmp_path: Path, format: str, files: dict[str, dict[str, object]]) -> None:
    folder = folder_of(tmp_path / "configs", files)
    assert recognised_files(folder, "--format") is CONFIG_FILES.load(format)


@pytest.mark.parametrize(
    "files",
    [
        {f"{H100}.json": {}},
        {f"triton_3_4_0/{H100}.json": {}, f"{H100},block_shape=[128,128].json": {}},
        {f"triton_3_4_0/{H100},block_shape=[128,128].json": {}},
    ],
)
@needs_torch
def test_files_that_fit_both_or_neither_need_the_option(tmp_path: Path, files: dict[str, dict[str, object]]) -> None:
    with pytest.raises(ValueError, match="--format vllm or sglang") as error:
        recognised_files(folder_of(tmp_path / "configs", files), "--format")
    assert "\n" not in str(error.value)


@needs_torch
def test_recognition_rejects_a_folder_without_config_files(tmp_path: Path) -> None:
    with pytest.raises(NoConfigs):
        recognised_files(tmp_path, "--format")


@needs_torch
def test_a_versioned_folder_is_recognised_from_within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = folder_of(tmp_path / "configs", {f"triton_3_4_0/{H100}.json": {}}) / "triton_3_4_0"
    monkeypatch.chdir(folder)
    assert recognised_files(Path("."), "--format") is CONFIG_FILES.load("sglang")
    assert read_file(Path(f"{H100}.json")).triton == "3.4.0"
