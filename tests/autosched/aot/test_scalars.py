"""Exported tile programs receive scalar arguments through their C interface."""

from __future__ import annotations

import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import forked_python
import pytest
from needs import needs_compiler, needs_nvrtc
from store_trials import make_trial

from autosched.programs.loading import load_program, problem
from measurements.store.store import Store
from measurements.trials.measurement import Measurement, Provenance, Status, Timing
from search_spaces.hardware.devices import device
from search_spaces.programs.template import template

from .conftest import HERE, ROOT, compiled

pytestmark = [needs_compiler, needs_nvrtc, pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")]

SCRIPT = """
import ctypes, sys
library, fake = ctypes.CDLL(sys.argv[1]), ctypes.CDLL("libcuda.so.1")
class Selection(ctypes.Structure):
    _fields_ = [("handle", ctypes.c_void_p), ("match", ctypes.c_int), ("arrays", ctypes.c_uint),
                ("doublings", ctypes.c_double), ("kernel", ctypes.c_char_p), ("verification", ctypes.c_char_p)]
message, found = ctypes.create_string_buffer(500), Selection()
status = library.autosched_select(sys.argv[2].encode(), 0, ctypes.c_double(1), ctypes.byref(found), message, 500)
assert status == 0, message.value
arrays = (ctypes.c_void_p * 3)(256, 512, 1024)
def launch():
    status = library.autosched_launch(ctypes.byref(found), arrays, None, message, 500)
    assert status == 0, message.value
    print(*(fake.fake_parameter(n) & 0xFFFFFFFF for n in (4, 5)))
launch()
for name, value in (("eps", 0.25), ("gain", -2.0)):
    status = library.autosched_pass(ctypes.byref(found), name.encode(), ctypes.c_double(value), message, 500)
    assert status == 0, message.value
launch()
for name, value in (("eps", -1.0), ("m", 1.0)):
    assert library.autosched_pass(ctypes.byref(found), name.encode(), ctypes.c_double(value), message, 500) != 0
    print(name, message.value.decode(), sep=": ")
"""


def test_launches_pass_other_scalars(tmp_path: Path) -> None:
    path = ROOT / "examples" / "programs" / "any_rows_rmsnorm.py"
    program = load_program(str(path))
    p = problem(program, m=8, n=64)
    schedule = template(program).space(p, device("a100")).sample(1, 1)[0]
    timed = Measurement(Status.OK, Provenance.ESTIMATED, timing=Timing(1e-5, 1e-5, 1e-5, 1))
    with Store.open(tmp_path / "best.db") as store:
        store.append(replace(make_trial(schedule, timed, p, "a100"), fingerprint="{}"))
    folder = tmp_path / "kernels"
    command = [sys.executable, "-m", "autosched", "export", "--db", str(tmp_path / "best.db"), "--cubin", str(folder)]
    completed = forked_python.run(
        [*command, "--program", str(path)], capture_output=True, text=True, check=False, timeout=250
    )
    assert completed.returncode == 0, completed.stderr
    compiled(tmp_path / "libcuda.so.1", HERE / "fake_driver.cpp", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1")
    library = compiled(tmp_path / "kernels.so", folder / "autosched_kernels.cpp", "-shared", "-fPIC")
    text = completed.stdout.partition(" on a100")[0]
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(library), text],
        capture_output=True, text=True, check=False, timeout=60, env={"LD_LIBRARY_PATH": str(tmp_path)},
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    usual, other, low, unknown = ran.stdout.splitlines()

    def floats(line: str) -> list[float]:
        return [struct.unpack("<f", struct.pack("<I", int(word)))[0] for word in line.split()]

    assert floats(usual) == [pytest.approx(1e-5), 1.0] and floats(other) == [0.25, -2.0]
    assert low.startswith("eps: eps must be") and "eps, gain" in unknown
