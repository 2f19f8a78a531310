"""Emulated launches without findings are recorded, run on a GPU one by one, and summarised by test."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from keep_launches import KeepLaunches
from needs import needs_compiler, needs_nvrtc
from ptx_snippets import ADD_ONE

from benchmarks.gpu.launches import run as launches
from benchmarks.gpu.launches.kept import MOST_EXPECTED, bytes_of, header, keep, names, read
from benchmarks.gpu.launches.table import largest_error, table
from measurements.emulator import Memory, StoredAddress, emulate, emulate_ptx
from measurements.emulator.order import Order
from measurements.workers.messages import digest_of
from search_spaces.hardware.dtypes import BF16, F16, F32, I32, SCALAR_DTYPES, U32
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.launch import Launch, ScalarArgument
from search_spaces.launches.operand import Operand
from search_spaces.launches.tensor_map import BoundingBox, TensorMap
from search_spaces.launches.texture import LinearTexture

ROOT = Path(__file__).parents[3]
SUPPORT = str(ROOT / "tests" / "support" / "launches")
A, OUT = Operand("a", "input", U32, (32,)), Operand("o", "output", U32, (32,))
VALUES = np.arange(32, dtype=np.uint32)
LAUNCH = Launch(entry="add_one", arguments=(A, OUT), grid=(1, 1, 1), block=(32, 1, 1))


def stored_launch(folder: Path, test: str, number: int = 0) -> str:
    """Record a launch of the test named ``test``, and return the launch's name."""
    launch = dataclasses.replace(LAUNCH, dynamic_shared_bytes=number)
    return keep(folder, test, ADD_ONE, launch, {"a": VALUES}, {"o": VALUES + 1})


# ---- recorded launches ----


@needs_compiler
def test_a_pytest_run_stores_its_emulated_launches(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    tests = "tests/measurements/emulator/ptx/test_byte_vectors.py"
    command = [sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", tests]
    done = subprocess.run(
        [*command, "--keep-launches", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")},
    )
    assert done.returncode == 0, done.stdout
    stored = [read(folder, name) for name in names(folder)]
    assert sorted(k.test.partition("::")[2] for k in stored) == [
        f"test_each_register_is_one_byte[{name}]" for name in ("converted", "packed again", "widened")
    ]
    for launch in stored:
        again = emulate_ptx(launch.text, launch.launch, launch.inputs)
        assert again.ok
        assert {name: digest_of(bytes_of(array)) for name, array in again.outputs.items()} == launch.expected
        assert all(np.array_equal(again.outputs[name], array) for name, array in launch.known.items())


@pytest.fixture
def keeping(tmp_path: Path):
    """Yield a folder in which every launch of this process is recorded."""
    plugin = KeepLaunches(tmp_path / "kept")
    plugin.pytest_runtest_logstart("this test")
    yield plugin.folder
    plugin.pytest_unconfigure()


@needs_compiler
@needs_nvrtc
def test_a_kernel_with_cached_bytecode_is_stored_as_ptx(keeping: Path) -> None:
    source = 'extern "C" __global__ void f(const unsigned* a, unsigned* o) { o[threadIdx.x] = a[threadIdx.x] + 1; }'
    kernel = GeneratedKernel(entry="f", source=source, arguments=(A, OUT), grid=(1, 1, 1), block=(32, 1, 1))
    for _ in range(2):
        done = emulate(kernel, {"a": VALUES})
    assert done.from_cache
    (name,) = names(keeping)
    stored = read(keeping, name)
    assert f".entry {stored.launch.entry}(" in stored.text and stored.test == "this test"
    assert type(stored.launch) is Launch
    assert np.array_equal(emulate_ptx(stored.text, stored.launch, stored.inputs).outputs["o"], VALUES + 1)


@needs_compiler
def test_the_only_entry_is_named_and_offsets_are_kept(keeping: Path) -> None:
    wide = dataclasses.replace(A, shape=(40,))
    launch = dataclasses.replace(LAUNCH, entry="", arguments=(wide, OUT))
    done = emulate_ptx(ADD_ONE, launch, {"a": np.arange(40, dtype=np.uint32)}, memory=Memory(offsets={0: 32, 1: 0}))
    (name,) = names(keeping)
    stored = read(keeping, name)
    assert stored.launch.entry == "add_one" and stored.offsets == {0: 32}
    again = emulate_ptx(stored.text, stored.launch, stored.inputs, memory=Memory(offsets=stored.offsets))
    assert np.array_equal(again.outputs["o"], done.outputs["o"]) and done.outputs["o"][0] == 9


@needs_compiler
@pytest.mark.parametrize(
    "change",
    [
        {"perturb": True},
        {"calls": 2},
        {"order": Order(blocks="descending")},
        {"blocks": [0]},
        {"memory": Memory(defined={"a": np.ones(128, np.bool_)})},
        {"memory": Memory(addresses=(StoredAddress("a", 0, "o"),))},
    ],
    ids=["perturbed", "twice", "other order", "some blocks", "with flags", "with addresses"],
)
def test_launches_that_a_gpu_cannot_reproduce_are_not_stored(keeping: Path, change) -> None:
    inout = dataclasses.replace(A, role="inout")
    launch = dataclasses.replace(LAUNCH, arguments=(inout, OUT))
    assert emulate_ptx(ADD_ONE, launch, {"a": VALUES}, **change).ok
    assert names(keeping) == ()
    assert emulate_ptx(ADD_ONE, launch, {"a": VALUES}).ok
    assert len(names(keeping)) == 1


@needs_compiler
def test_launches_with_faults_with_textures_and_of_large_arrays_are_not_kept(keeping: Path) -> None:
    short = dataclasses.replace(LAUNCH, arguments=(A, dataclasses.replace(OUT, shape=(31,))))
    assert emulate_ptx(ADD_ONE, short, {"a": VALUES}).status == "findings"
    large = dataclasses.replace(A, shape=((8 << 20) // 4 - 31,))
    launch = dataclasses.replace(LAUNCH, arguments=(large, OUT))
    assert emulate_ptx(ADD_ONE, launch, {"a": np.zeros(large.shape, np.uint32)}).ok
    texture = LinearTexture("t", dataclasses.replace(A, name="b"))
    text = ADD_ONE.replace(".param .u64 o)", ".param .u64 o, .param .u64 t)")
    launch = dataclasses.replace(LAUNCH, arguments=(A, OUT, texture))
    assert emulate_ptx(text, launch, {"a": VALUES, "b": VALUES}).ok
    assert names(keeping) == ()
    launch = dataclasses.replace(LAUNCH, arguments=(dataclasses.replace(large, shape=(large.size - 1,)), OUT))
    assert emulate_ptx(ADD_ONE, launch, {"a": np.zeros(large.size - 1, np.uint32)}).ok
    assert len(names(keeping)) == 1, "8 MiB are not too large"


# ---- recording ----

EXTREMES = {
    "f64": (math.nan, math.inf, 5e-324, -0.0, 0.1),
    "f32": (math.nan, -math.inf, 2.0**-149, -0.0, 0.1),
    "f16": (math.nan, math.inf, 2.0**-24, 0.1),
    "bf16": (math.nan, math.inf, 2.0**-133, 0.1),
    "e4m3": (math.nan, 448.0, 2.0**-9),
    "e5m2": (math.nan, math.inf, 2.0**-16),
    "bool": (False, True),
    **{
        name: (int(np.iinfo(d.storage).min), 7, int(np.iinfo(d.storage).max))
        for name, d in SCALAR_DTYPES.items()
        if not d.is_float and name != "bool"
    },
}


def test_every_type_of_scalar_has_extremes() -> None:
    assert set(EXTREMES) == set(SCALAR_DTYPES)


def test_recorded_launches_round_trip(tmp_path: Path) -> None:
    scalars = [
        ScalarArgument(f"{t}_{i}", SCALAR_DTYPES[t], v) for t, values in EXTREMES.items() for i, v in enumerate(values)
    ]
    image = Operand("image", "input", F16, (2, 8, 8, 16))
    plain = TensorMap.dense("plain", Operand("p", "inout", BF16, (64, 64)), (8, 64), swizzle="128B")
    slices = TensorMap.interleaved("slices", Operand("s", "input", F16, (2, 2, 8, 8, 8)), (1, 1, 4, 8), "16B")
    pixels = dataclasses.replace(
        TensorMap.dense("pixels", image, (1, 1, 1, 16), l2_promotion="L2_128B"),
        box=(16, 32, 1, 1),
        element_strides=(1, 2, 2, 1),
        im2col=BoundingBox((-1, -2), (0, -3)),
        fill="NAN_REQUEST_ZERO_FMA",
    )
    work = Operand("work", "workspace", F32, (3, 5), zeroed=True)
    large = Operand("large", "output", F32, (MOST_EXPECTED // 4 + 1,))
    constant = Operand("constant", "input", I32, (4,))
    launch = Launch(
        entry="add_one",
        arguments=(A, plain, slices, pixels, work, OUT, large, A, *scalars),
        grid=(4, 3, 2),
        block=(32, 2, 1),
        cluster=(2, 3, 1),
        dynamic_shared_bytes=1000,
        launches=3,
        symbols=(constant,),
    )
    rng = np.random.default_rng(0)

    def some(role: str) -> dict[str, np.ndarray]:
        operands = [o for o in launch.operands if o.role in (role, "inout")]
        return {
            o.name: rng.integers(0, 256, o.bytes, np.uint8).view(o.dtype.storage).reshape(o.shape) for o in operands
        }

    inputs, outputs = some("input"), some("output")
    name = keep(tmp_path, "t[1]", ADD_ONE, launch, inputs, outputs, offsets={0: 4, 1: 16, 4: 0}, notes=["trap", "trap"])
    assert names(tmp_path) == (name,) and header(tmp_path, name) == ("t[1]", digest_of(ADD_ONE.encode()))
    json.loads((tmp_path / "launches" / f"{name}.json").read_text(), parse_constant=pytest.fail)  # no NaN, no Infinity
    stored = read(tmp_path, name)
    assert (stored.test, stored.text, stored.offsets, stored.notes) == ("t[1]", ADD_ONE, {0: 4, 1: 16}, ("trap",))
    numbers = len(launch.arguments) - len(scalars)
    assert dataclasses.replace(stored.launch, arguments=()) == dataclasses.replace(launch, arguments=())
    assert stored.launch.arguments[:numbers] == launch.arguments[:numbers]
    for loaded, scalar in zip(stored.launch.arguments[numbers:], scalars, strict=True):
        assert (loaded.name, loaded.dtype, loaded.stored.tobytes()) == (
            scalar.name,
            scalar.dtype,
            scalar.stored.tobytes(),
        )
    assert {n: (a.dtype, a.shape, a.tobytes()) for n, a in stored.inputs.items()} == {
        n: (a.dtype, a.shape, a.tobytes()) for n, a in inputs.items()
    }
    assert stored.expected == {n: digest_of(a.tobytes()) for n, a in outputs.items()}
    assert set(stored.known) == {"p", "o"}, "the large array is recorded as a digest"
    assert all(np.array_equal(stored.known[n].view(np.uint8), outputs[n].view(np.uint8)) for n in stored.known)


def test_equal_launches_are_stored_once(tmp_path: Path) -> None:
    first = stored_launch(tmp_path, "first")
    assert stored_launch(tmp_path, "second") == first
    assert read(tmp_path, first).test == "first"
    other_names = {
        stored_launch(tmp_path, "third", number=1),
        keep(tmp_path, "fourth", ADD_ONE, LAUNCH, {"a": VALUES + 1}, {"o": VALUES + 1}),
        keep(tmp_path, "fifth", ADD_ONE, LAUNCH, {"a": VALUES}, {"o": VALUES + 2}),
        keep(tmp_path, "sixth", f"{ADD_ONE}// ", LAUNCH, {"a": VALUES}, {"o": VALUES + 1}),
        keep(tmp_path, "seventh", ADD_ONE, LAUNCH, {"a": VALUES}, {"o": VALUES + 1}, offsets={0: 4}),
    }
    assert len(other_names) == 5 and set(names(tmp_path)) == {first, *other_names}
    assert len(list((tmp_path / "ptx").iterdir())) == 2 and len(list((tmp_path / "arrays").iterdir())) == 3


def test_launches_of_several_steps_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="only a single launch"):
        keep(tmp_path, "t", ADD_ONE, dataclasses.replace(LAUNCH, then=(LAUNCH,)), {"a": VALUES}, {"o": VALUES})
    assert names(tmp_path) == ()


def test_a_damaged_array_is_not_read(tmp_path: Path) -> None:
    name = stored_launch(tmp_path, "t")
    one, other = (tmp_path / "arrays").iterdir()
    one.write_bytes(other.read_bytes())
    with pytest.raises(ValueError, match="is damaged"):
        read(tmp_path, name)


# ---- results ----


def test_the_largest_error_is_relative_to_the_larger_of_the_two() -> None:
    def error(actual, expected, dtype=F32) -> float | None:
        return largest_error(dtype, np.array(actual, dtype.storage), np.array(expected, dtype.storage))

    assert error([1.0, 3.0, -8.0], [1.0, 4.0, -8.0]) == 0.25
    assert error([-1.0], [1.0]) == 2.0
    assert error([0.0, math.nan, math.inf], [-0.0, math.nan, math.inf]) == 0.0
    assert error([math.nan], [1.0]) == error([math.inf], [-math.inf]) == error([1.0], [math.inf]) == math.inf
    assert error([7, 0], [8, 0], I32) == 0.125
    assert error([0x3F80], [0x4000], BF16) == 0.5
    assert largest_error(F32, np.zeros(3, np.float32), None) is None


ROWS = [
    {"test": "a.py::one[1]", "status": "equal"},
    {"test": "a.py::one[2]", "status": "differs", "errors": {"o": 0.125, "p": 0.5}},
    {"test": "a.py::one[3]", "status": "differs", "errors": {"o": None}},
    {"test": "b.py::two", "status": "equal"},
    {"test": "c.py::three", "status": "hang"},
    {"test": "c.py::three", "status": "fault"},
    {"test": "c.py::three", "status": "refused", "reason": "no"},
]


def test_the_table_has_a_line_for_each_test() -> None:
    lines = [line.split() for line in table(ROWS).splitlines()]
    assert lines[0] == ["test", "equal", "differs", "refused", "fault", "hang", "error", "largest", "error"]
    assert lines[1:] == [
        ["a.py::one", "1", "2", "0.5?"],
        ["b.py::two", "1"],
        ["c.py::three", "1", "1", "1"],
        ["all", "2", "2", "1", "1", "1", "0.5?"],
    ]
    columns = table(ROWS).splitlines()
    assert columns[3].index("1") > columns[0].index("differs") + len("differs")
    assert "two" not in table(ROWS, all_tests=False) and "three" in table(ROWS, all_tests=False)
    assert table([]).splitlines()[1] == "all"


# ---- processes ----


def run_faulty(folder: Path, **options) -> dict[str, dict]:
    rows: list[dict] = []
    options = {"workers": 1, "module": "faulty_launches", "python_path": [SUPPORT], **options}
    launches.run(folder, names(folder), rows.append, **options)
    assert len({row["launch"] for row in rows}) == len(rows)
    return {row["test"]: row for row in rows}


@pytest.mark.parametrize("how", ["fault", "hang", "raises", "dies"])
def test_no_kernel_is_launched_in_a_process_after_a_fault(tmp_path: Path, how: str) -> None:
    for number, test in enumerate([f"equal[{i}]" for i in range(3)] + [f"{how}[{i}]" for i in range(3)]):
        stored_launch(tmp_path, test, number)
    order = [read(tmp_path, name).test for name in names(tmp_path)]
    rows = run_faulty(tmp_path)
    assert list(rows) == order
    status = {"raises": "error", "dies": "fault"}.get(how, how)
    assert {test: row["status"] for test, row in rows.items()} == {
        test: "equal" if test.startswith("equal") else status for test in order
    }
    processes = [rows[test].get("process") for test in order]
    for before, after, test in zip(processes, processes[1:], order, strict=False):
        if before is not None and after is not None:
            assert (before == after) == test.startswith("equal")
    if how == "dies":
        assert "ended with exit status 3" in rows["dies[0]"]["reason"]


def test_a_process_without_a_response_is_a_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "REQUEST_SECONDS", 0.5)
    stored_launch(tmp_path, "sleeps")
    assert run_faulty(tmp_path)["sleeps"]["status"] == "hang"


def test_processes_share_the_modules_and_stop_at_the_time_limit(tmp_path: Path) -> None:
    for number in range(8):
        keep(tmp_path, f"equal[{number}]", f"{ADD_ONE}// {number % 4}", LAUNCH, {"a": VALUES + number}, {"o": VALUES})
    rows = run_faulty(tmp_path, workers=2)
    by_module: dict[str, set[int]] = {}
    for row in rows.values():
        by_module.setdefault(header(tmp_path, row["launch"])[1], set()).add(row["process"])
    assert len(rows) == 8 and all(len(processes) == 1 for processes in by_module.values())
    assert run_faulty(tmp_path, seconds=-1.0) == {}


# ---- the command ----


@pytest.fixture
def fake_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "cuda_available", lambda: (True, "NVIDIA H100 answers"))
    monkeypatch.setattr(launches, "run", partial(launches.run, module="faulty_launches", python_path=[SUPPORT]))


def test_a_missing_gpu_is_reported_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(launches, "cuda_available", lambda: (False, "no driver"))
    stored_launch(tmp_path, "equal")
    assert launches.main([str(tmp_path), "--out", str(tmp_path / "out")]) == 1
    output = capsys.readouterr()
    assert (output.out, output.err) == ("", "benchmarks.gpu.launches: no GPU can be used: no driver\n")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (["--minutes", "0"], "--minutes must be positive"),
        (["--minutes", "nan"], "--minutes must be positive"),
        (["--workers", "0"], "--workers must be at least 1"),
        (["--out", "{folder}/launches/NAME.json"], "cannot be written"),
        (["--more"], "unrecognized arguments"),
        (["--assemble", "sm_90a"], "--assemble ARCH"),
    ],
)
@pytest.mark.usefixtures("fake_gpu")
def test_invalid_usage_exits_with_2(tmp_path: Path, capsys, change, complaint) -> None:
    name = stored_launch(tmp_path, "equal")
    change = [word.format(folder=tmp_path).replace("NAME", name) for word in change]
    with pytest.raises(SystemExit) as ended:
        launches.main([str(tmp_path), "--out", str(tmp_path / "out"), *change])
    assert ended.value.code == 2 and complaint in capsys.readouterr().err


def test_a_folder_without_launches_is_bad_usage(tmp_path: Path, capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        launches.main([str(tmp_path), "--out", str(tmp_path / "out")])
    assert ended.value.code == 2 and "--keep-launches FOLDER" in capsys.readouterr().err


@pytest.mark.usefixtures("fake_gpu")
def test_results_are_written_immediately_and_not_measured_again(tmp_path: Path, capsys) -> None:
    folder, out = tmp_path / "kept", tmp_path / "out"
    for number, test in enumerate(["equal[1]", "differs[1]", "refused[1]"]):
        stored_launch(folder, test, number)
    command = [str(folder), "--out", str(out)]
    assert launches.main(command) == 0
    stdout = capsys.readouterr().out
    assert stdout.splitlines()[0] == "NVIDIA H100" and "0.25?" in stdout and "left out" not in stdout
    rows = [json.loads(line) for line in (out / "results.jsonl").read_text().splitlines()]
    assert {row["test"]: (row["gpu"], row["status"]) for row in rows} == {
        f"{status}[1]": ("NVIDIA H100", status) for status in ("equal", "differs", "refused")
    }
    assert {row["launch"] for row in rows} == set(names(folder))
    assert "equal" in (out / "table.txt").read_text()
    # the next run has one more launch, and results that end in a truncated line, as after a kill
    with (out / "results.jsonl").open("a") as file:
        file.write('{"gpu": "NVIDIA H1')
    stored_launch(folder, "fault[1]", 3)
    assert launches.main(command) == 1
    *old, _, new = (out / "results.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in old] == rows and json.loads(new)["test"] == "fault[1]"
    assert len((out / "table.txt").read_text().splitlines()) == 7
    assert launches.main([*command, "--minutes", "1"]) == 1
    assert len((out / "results.jsonl").read_text().splitlines()) == 5


@pytest.mark.usefixtures("fake_gpu")
def test_results_of_another_gpu_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    folder, out = tmp_path / "kept", tmp_path / "out"
    stored_launch(folder, "equal")
    for gpu in ("NVIDIA H100", "NVIDIA H200"):
        monkeypatch.setattr(launches, "cuda_available", lambda gpu=gpu: (True, f"{gpu} answers"))
        assert launches.main([str(folder), "--out", str(out)]) == 0
    assert len((out / "results.jsonl").read_text().splitlines()) == 2
    monkeypatch.setattr(launches, "cuda_available", lambda: (True, "NVIDIA B200 answers"))
    assert launches.main([str(folder), "--out", str(out), "--minutes", "1e-9"]) == 0
    assert "1 of 1 launches" in capsys.readouterr().out


@pytest.mark.usefixtures("fake_gpu")
def test_an_unreadable_launch_is_reported_in_one_line(tmp_path: Path, capsys) -> None:
    folder = tmp_path / "kept"
    name = stored_launch(folder, "equal")
    (folder / "launches" / f"{name}.json").write_text("[]")
    assert launches.main([str(folder), "--out", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
