"""Kernel Tuner's T1 files are read as kernel files, with the same meaning as in Kernel Tuner."""

# ruff: noqa: E501  # tables with one case a line
from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from autosched.user_kernels import KernelFileError
from autosched.user_kernels.lowering import source_of
from autosched.user_kernels.problem import problem_type
from autosched.user_kernels.reading.kernel_files import read_file, read_t1
from autosched.user_kernels.template import template
from search_spaces.hardware.devices import device

T1 = (Path(__file__).parent / "stencil_T1.json").read_text()
SOURCE = "#pragma once\n__global__ void stencil(float* out) { int i = block_size_x * grid_size_x; }\n"
Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def make(*replace: tuple[str, str]) -> Path:
        text = T1
        for old, new in replace:
            assert old in text
            text = text.replace(old, new, 1)
        (tmp_path / "stencil.cu").write_text(SOURCE)
        path = tmp_path / "stencil.json"
        path.write_text(text)
        return path

    return make


def test_a_t1_file_is_a_kernel_file(write: Write) -> None:
    file = read_t1(write())
    assert (file.name, file.entry, file.options) == ("stencil", "stencil", ("-use_fast_math",))
    assert dict(file.sizes) == {"problem_size_x": 4096, "problem_size_y": 1000}
    assert [(p.name, p.values, p.default) for p in file.parameters] == [
        ("block_size_x", (16, 32, 48, 64), 32),
        ("block_size_y", (1, 2, 4, 8, 16, 32), 1),  # the default value is not in the parameter's domain
        ("tile_x", (1, 2, 4, 8), 2),
        ("radius", (1,), 1),
        ("weight", ("0.25", "0.5"), "0.25"),
    ]
    assert [(a.name, a.kind, a.dtype.name) for a in file.arguments] == [
        ("out", "output", "f32"),
        ("in", "input", "f32"),
        ("state", "inout", "i32"),
        ("width", "scalar", "i32"),
        ("step", "scalar", "f32"),
    ]
    problem = problem_type(file).of({})
    assert [o.shape for o in problem.operands()] == [(4096 * 1000,), (4098 * 1000 * 2,), (16,)]
    assert (problem.random_inputs(0)["state"] == 3).all()


def test_restrictions_are_evaluated_as_in_python(write: Write) -> None:
    file = read_t1(write())
    space = template(file).space(problem_type(file).of({}), device("h200"))
    legal = sum(
        32 <= x * y <= 1024 and (t == 1 or (x * t) / 32 >= 2) and 4096 % t == 0
        for x, y, t, _, _ in itertools.product(*(p.values for p in file.parameters))
        if isinstance(x, int) and isinstance(y, int) and isinstance(t, int)
    )
    assert space.count() == legal


def test_grid_block_and_macros_agree_with_kernel_tuner(write: Write) -> None:
    file = read_t1(write())
    config = {"block_size_x": 48, "block_size_y": 16, "tile_x": 4, "radius": 1, "weight": "0.5"}
    values = file.values(dict(file.sizes), config)
    grid = [math.ceil(4096 / (48 * 4)), math.ceil(1000 / 16), 1]
    assert [values[f"grid_dim_{axis}"] for axis in "xyz"] == grid
    assert [values[f"block_dim_{axis}"] for axis in "xyz"] == [48, 16, 1]
    lines = source_of(file, values).splitlines()
    assert {"#define block_size_x 48", "#define block_size_z 1", f"#define grid_size_x {grid[0]}"} < set(lines)
    assert "#define kernel_tuner 1" in lines


def test_without_block_sizes_the_local_size_is_the_block(write: Write) -> None:
    text = (
        T1.replace("block_size_x", "bx")
        .replace("block_size_y", "by")
        .replace('"tile_x"],', '"tile_x"], "GridDivY": ["by"],')
    )
    path = write()
    path.write_text(text)
    (path.parent / "stencil.cu").write_text(SOURCE)
    file = read_t1(path)
    values = file.values(dict(file.sizes), {"bx": 32, "by": 4, "tile_x": 2, "radius": 1, "weight": "0.5"})
    assert [values[f"block_dim_{axis}"] for axis in "xyz"] == [32, 4, 1]
    assert [values[f"grid_dim_{axis}"] for axis in "xyz"] == [64, 250, 1]


def test_the_source_may_be_in_the_parent_folder(write: Write) -> None:
    path = write()
    below = path.parent / "inputs"
    below.mkdir()
    assert read_t1(path.rename(below / "stencil.json")).source == SOURCE


WRONG = [
    ('"General"', "General", "stencil.json:2: this is not JSON: Expecting property name"),
    ('"CUDA",', '"OpenCL",', "stencil.json: KernelSpecification.Language: OpenCL kernels are not supported"),
    ('"stencil.cu"', '"other.cu"', "stencil.json:22: kernel.source: cannot read "),
    ('"KernelName": "stencil"', '"KernelName": "stancil"', "stencil.json:21: kernel.entry: the source has no function 'stancil'"),
    ("[16*i for i in range(1, 5)]", "[f(i) for i in range(1, 5)]", "stencil.json: ConfigurationSpace.TuningParameters[1].Values: unknown function f"),
    ("tile_x == 1 or", "tiel_x == 1 or", "stencil.json:13: rule[2].expr: unknown name 'tiel_x', did you mean tile_x?"),
    ("tile_x == 1 or", "tile_x = 1 or", 'stencil.json: ConfigurationSpace.Conditions[2].Expression: "tile_x = 1'),
    ("ProblemSize[0] % tile_x", "ProblemSize[7] % tile_x", "stencil.json:14: rule[3].expr: an index [..] is not part"),
    ('"ProblemSize": [4096, 1000],', "", "stencil.json:31: argument[1].shape: unknown name 'problem_size_x'"),
    ('"Type": "float2"', '"Type": "custom"', "stencil.json: KernelSpecification.Arguments[2].Type: the type 'custom' is not"),
    ('"MemoryType": "Vector"', '"MemoryType": "Texture"', "stencil.json: KernelSpecification.Arguments[1].MemoryType: memory of the type 'Texture'"),
    ('"FillType": "Random"', '"FillType": "Script"', "stencil.json: KernelSpecification.Arguments[2].FillType: the fill"),
    ('"ReadOnly"', '"Read"', "stencil.json: KernelSpecification.Arguments[2].AccessType: 'Read' is not known"),
    ('"Size": 16', '"Size": "tile_x"', "stencil.json:35: argument[3].shape: unknown name 'tile_x'"),
    ('"FillValue": 4096', '"FillValue": "x"', "stencil.json:37: argument[4].value: unknown name 'x'"),
    ("-std=c++11", "-Xcompiler", "stencil.json: kernel.options: the option '-Xcompiler' is not supported"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line"), WRONG, ids=[line for _, _, line in WRONG])
def test_invalid_t1_files_are_rejected_in_one_line(write: Write, old: str, new: str, line: str) -> None:
    with pytest.raises(KernelFileError) as error:
        read_t1(write((old, new)))
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", ["[]", "3", '{"KernelSpecification": 3}', "{}"])
def test_other_json_is_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(KernelFileError) as error:
        read_t1(tmp_path / "x.json")
    assert str(error.value).startswith("x.json") and "\n" not in str(error.value)


CONSTANT = "__constant__ float weights[16];\n" + SOURCE.replace(
    "float* out", "float* out, float2* in, int* state, int width"
)


def test_constant_memory_is_filled_and_passed_on(write: Write, tmp_path: Path) -> None:
    path = write(('"MemoryType": "Vector"', '"MemType": "Constant", "MemoryType": "Vector"'), ('"out"', '"weights"'))
    (tmp_path / "stencil.cu").write_text(CONSTANT)
    kinds = {a.name: a.kind for a in read_t1(path).arguments}
    assert (kinds["weights"], kinds["weights_argument"]) == ("constant", "output")
    symbol = read_t1(write(('"MemoryType": "Vector"', '"MemoryType": "Symbol"')))
    assert symbol.arguments[0].kind == "constant"


def test_the_global_size_is_the_grid_or_opencls_number_of_threads(write: Write) -> None:
    global_size = (
        ('"GlobalSize": {"X": "4096", "Y": "4096", "Z": "1"},', '"GlobalSize": {"X": "1000 // tile_x", "Y": "7"},'),
        ('"ProblemSize": [4096, 1000],', ""),
        ("ProblemSize[0] % ", "8192 % "),
        ("ProblemSize[0]*ProblemSize[1]", "16"),
        ("(ProblemSize[0]+2*max(radius)) * ProblemSize[1]", "16"),
    )
    for kind, grid in (("CUDA", (500, 7, 1)), ("OpenCL", (16, 7, 1))):
        file = read_t1(write(*global_size, ('"GlobalSizeType": "CUDA"', f'"GlobalSizeType": "{kind}"')))
        values = file.values({}, {p.name: p.default for p in file.parameters})
        assert tuple(values[f"grid_dim_{axis}"] for axis in "xyz") == grid


def test_references_that_are_constants_are_compared_with(write: Write) -> None:
    one = '{"Name": "r", "TargetName": "%s", "FillType": "%s", "FillValue": 2, "ValidationThreshold": 0.5}'
    both = f'"ReferenceArguments": [{one % ("out", "Constant")}, {one % ("state", "Constant")}], "Language"'
    file = read_t1(write(('"Language"', both)))
    problem = problem_type(file).of({})
    reference, tolerance = problem.expected(problem.random_inputs(0))
    assert (reference["out"] == 2).all() and (tolerance["state"] == 0.5).all()
    for replacement, message in (
        (both.replace("Constant", "Random"), "only the fill Constant"),
        (both.replace("state", "out"), "for state"),
    ):
        with pytest.raises(KernelFileError, match=message):
            read_t1(write(('"Language"', replacement)))


def test_a_toml_file_overrides_a_t1_file(write: Write, tmp_path: Path) -> None:
    write()
    (tmp_path / "over.toml").write_text(
        '[kernel]\nt1 = "stencil.json"\nname = "over"\n[parameters]\ntile_x = [2]\n'
        '[[argument]]\nname = "state"\nkind = "output"\n[cost]\nbytes = "problem_size_x"\n'
    )
    file = read_file(tmp_path / "over.toml")
    assert file.name == "over" and file.bytes is not None
    assert {p.name: p.values for p in file.parameters}["tile_x"] == (2,)
    assert [(a.name, a.kind) for a in file.arguments][2] == ("state", "output") and file.arguments[2].fill is None
    (tmp_path / "over.toml").write_text('[kernel]\nt1 = "nowhere.json"\n')
    with pytest.raises(KernelFileError, match=r"over\.toml:2: kernel\.t1: the file 'nowhere\.json'"):
        read_file(tmp_path / "over.toml")


STATE = '"FillType": "Constant",\n       "Size": 16, "FillValue": 3}'


@pytest.mark.parametrize(
    ("kind", "name", "content"),
    [
        ("File", "state.txt", b"1 2 3 4 5 6 7 8\n9 10 11 12 13 14 15 16\n"),
        ("BinaryRaw", "state.bin", np.arange(1, 17, dtype=np.int32).tobytes()),
    ],
)
def test_an_array_may_come_from_a_file(write: Write, tmp_path: Path, kind: str, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    file = read_t1(write((STATE, f'"FillType": "{kind}", "Size": 16, "DataSource": "{name}"}}')))
    state = problem_type(file).of({}).random_inputs(0)["state"]
    assert state.tolist() == list(range(1, 17)) and state.dtype == np.int32


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.txt", "the file 'none.txt' does not exist next to the T1 file"),
        ("../x.txt", "outside the folder"),
        ("words.txt", "words.txt does not contain the numbers of an array"),
    ],
)
def test_a_file_that_holds_no_array_is_rejected(write: Write, tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "words.txt").write_text("some words")
    with pytest.raises(KernelFileError, match=message):
        read_t1(write((STATE, f'"FillType": "File", "Size": 16, "DataSource": "{name}"}}')))
