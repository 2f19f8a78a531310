"""Output of `doctor` for a machine, and of `devices` for the known GPUs."""

import dataclasses
import json
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError
from types import ModuleType, SimpleNamespace

import pytest

from autosched.cli.commands.machine import doctor as doctor_module
from measurements.compiler.nvrtc import NvrtcMissing
from search_spaces.hardware.devices import all_devices, device

Run = Callable[..., tuple[int, str, str]]


def test_doctor_lists_installed_components(run: Run) -> None:
    status, out, _ = run("doctor")
    assert status == 0
    for word in (
        "GPU",
        "NVIDIA driver",
        "NVRTC",
        "cupy",
        "host compiler",
        "optuna",
        "xgboost",
        "cache",
        "--backend cuda",
    ):
        assert word in out


def test_doctor_reports_how_to_install_missing_components(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_nvrtc() -> str:
        raise NvrtcMissing("not installed")

    def without_psycopg(name: str) -> str:
        if name == "psycopg":
            raise PackageNotFoundError(name)
        return "1.2"

    monkeypatch.setattr(doctor_module, "loaded_version", no_nvrtc)
    monkeypatch.setattr(doctor_module, "cuda_available", lambda: (False, "no driver"))
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "cupy", None)
    monkeypatch.setattr(doctor_module, "version", without_psycopg)
    status, out, err = run("doctor", "--json")
    assert (status, err) == (0, "")
    document = json.loads(out)
    parts = {p["name"]: p for p in document["parts"]}
    assert parts["NVRTC"]["version"] is None and "pip install" in parts["NVRTC"]["note"]
    assert parts["cupy"]["version"] is None and "pip install" in parts["cupy"]["note"]
    assert parts["host compiler"]["version"] is None and "install" in parts["host compiler"]["note"]
    assert (document["gpus"], document["no_gpu_reason"]) == ([], "no driver")
    abilities = {a["name"]: a for a in document["abilities"]}
    assert (
        not abilities["tune --backend estimate"]["runs"]
        and "pip install" in abilities["tune --backend estimate"]["note"]
    )
    assert not abilities["verify"]["runs"] and abilities["space, best"]["runs"]
    assert abilities["--db postgresql://..."]["note"] == "pip install 'autosched[postgresql]'"
    assert abilities["--plot, --picture"]["note"] == "matplotlib 1.2"
    assert run("doctor")[0] == 0


def test_doctor_reports_a_derived_device_row(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    properties = {"name": b"NVIDIA GeForce RTX 4070 Unknown", "totalGlobalMem": 12 * 2**30, "major": 8, "minor": 9}
    cupy = ModuleType("cupy")
    cupy.__spec__ = ModuleSpec("cupy", None)
    cupy.cuda = SimpleNamespace(  # type: ignore[attr-defined]
        runtime=SimpleNamespace(getDeviceCount=lambda: 1, getDeviceProperties=lambda number: properties)
    )
    row = dataclasses.replace(device("rtx4070"), name="rtx4070_unknown", derived=True)
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(doctor_module, "cuda_available", lambda: (True, ""))
    monkeypatch.setattr(doctor_module, "cuda_device", lambda number: row)
    (gpu,) = json.loads(run("doctor", "--json")[1])["gpus"]
    assert (gpu["device"], gpu["note"]) == ("rtx4070_unknown", "derived from the driver's figures and sm_89")
    assert "derived from the driver's figures" in " ".join(run("doctor")[1].split())


def test_devices_lists_every_row(run: Run) -> None:
    status, out, _ = run("devices", "--json")
    assert status == 0
    assert [row["name"] for row in json.loads(out)["devices"]] == [row.name for row in all_devices()]
    status, out, _ = run("devices")
    assert status == 0 and all(row.name in out for row in all_devices())
    assert run("devices", "--json", "--markdown")[0] == 2
