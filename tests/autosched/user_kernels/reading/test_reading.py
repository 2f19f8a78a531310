"""Every error in a kernel file gives one message with file name and line number."""

# ruff: noqa: E501  # tables with one case a line
from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autosched.user_kernels import KernelFileError
from autosched.user_kernels.document import KeyPositions
from autosched.user_kernels.kernel_file import KernelFile
from autosched.user_kernels.problem import problem_type
from autosched.user_kernels.reading.kernel_files import read_document, read_file

from ..conftest import SOURCE, TOML

Write = Callable[..., Path]


def test_all_sections_of_a_kernel_file_are_read(kernel_file: KernelFile) -> None:
    file = kernel_file
    assert (file.name, file.entry, file.passing, file.options) == ("scale", "scale", "define", ("--use_fast_math",))
    assert dict(file.sizes) == {"width": 1000, "height": 8}
    assert [dict(p) for p in file.problems] == [{"width": 4096, "height": 8}, {"width": 100, "height": 3}]
    assert [(p.name, p.values[:2], p.default, p.kind) for p in file.parameters] == [
        ("block_x", (32, 64), 32, "ordinal"),
        ("tile", (1, 2), 2, "ordinal"),
        ("order", ("row", "column"), "row", "categorical"),
        ("alpha", ("0.5", "2.0"), "0.5", "ordinal"),
        ("fast", (0, 1), 0, "ordinal"),
    ]
    assert file.floats == {"alpha"}
    assert [name for name, _ in file.headers] == ["deeper.h", "tile.h"]
    assert [(a.name, a.kind, a.dtype.name) for a in file.arguments] == [
        ("out", "output", "f32"),
        ("input", "input", "f32"),
        ("width", "scalar", "i32"),
        ("factor", "scalar", "f32"),
    ]
    assert [m.name for m in file.metrics] == ["GB/s", "GFLOP/s", "elements/s", "relative"]
    assert [r.pruning for r in file.rules] == [False, True]
    assert file.reference.name == "reference.py:scale"


def test_changes_affect_the_kernels_or_the_problems_identity(write: Write) -> None:
    first = read_file(write())
    assert read_file(write()) == first
    other_rule = read_file(write(TOML, ("span <= width", "span < width")))
    assert (other_rule.content != first.content) and other_rule.computes == first.computes
    other_source = read_file(write(source="/* */ __global__ void scale() {}"))
    assert (other_source.content != first.content) and other_source.computes == first.computes
    other_fill = read_file(write(TOML, ("[-1, 1]", "[-2, 1]")))
    assert other_fill.computes != first.computes
    other_reference = read_file(write(TOML, ("reference.py:scale", "reference.py:two")))
    assert other_reference.computes != first.computes


def test_kernel_tuners_grid(write: Write) -> None:
    launch = (
        'grid = ["ceil_div(width, span)", "height"]',
        'problem_size = ["width", "height"]\ngrid_div_x = ["block_x", "tile"]',
    )
    file = read_file(write(TOML, launch))
    values = file.values(
        {"width": 1000, "height": 8}, {"block_x": 64, "tile": 2, "order": "row", "alpha": "0.5", "fast": 1}
    )
    assert [values[f"grid_dim_{axis}"] for axis in "xyz"] == [8, 8, 1]


def test_special_block_names_make_the_block(write: Write) -> None:
    launch = ('block = "block_x"\ngrid = ["ceil_div(width, span)", "height"]', 'problem_size = ["width", "height"]')
    file = read_file(
        write(TOML.replace("block_x", "block_size_x"), (launch[0].replace("block_x", "block_size_x"), launch[1]))
    )
    config = {"block_size_x": 64, "tile": 2, "order": "row", "alpha": "0.5", "fast": 1}
    values = file.values({"width": 1000, "height": 8}, config)
    assert [values[f"block_dim_{axis}"] for axis in "xyz"] == [64, 1, 1]
    assert [values[f"grid_dim_{axis}"] for axis in "xyz"] == [16, 8, 1]


WRONG: list[tuple[str, str, str]] = [
    # each row: a text of the file, its replacement, and the beginning of the resulting error message
    ("[sizes]", "[sizes", "scale.toml:6: invalid TOML: Expected ']' at the end of a table declaration"),
    ("[kernel]", 'title = "x"\n[kernel]', "scale.toml:1: title: unknown key 'title', use one of kernel, sizes, "),
    ("options =", "option =", "scale.toml:4: kernel.option: unknown key 'option', did you mean options?"),
    ('entry = "scale"', "entry = 3", "scale.toml:3: kernel.entry: this must be a text, not 3"),
    ('entry = "scale"\n', "", "scale.toml:1: kernel: entry is missing: give a text"),
    ('entry = "scale"', 'entry = "scala"', "scale.toml:3: kernel.entry: the source has no function 'scala'"),
    ('entry = "scale"', 'entry = "sc ale"', "scale.toml:3: kernel.entry: 'sc ale' is not a function name"),
    ('"scale.cu"', '"scal.cu"', "scale.toml:2: kernel.source: cannot read "),
    ('"scale.cu"', r'"\u0000"', "scale.toml:2: kernel.source: '"),
    ("-O3", "-I/usr", "scale.toml:4: kernel.options: the option '-I/usr' is not supported: list folders in include"),
    ("-O3", "-Xptxas", "scale.toml:4: kernel.options: the option '-Xptxas' is not supported: docs/reference/bring-your-own-kernel.md lists"),
    ("[kernel]", '[kernel]\nname = "a b"', 'scale.toml:2: kernel.name: invalid name "a b"'),
    ("[kernel]", '[kernel]\ninclude = "nowhere"', "scale.toml:2: kernel.include: the folder 'nowhere'"),
    ("[kernel]", '[kernel]\nparameters_as = "macro"', "scale.toml:2: kernel.parameters_as: 'macro' is not known: use"),
    ("[kernel]", '[kernel]\nparameters_as = "struct"', "scale.toml:2: kernel.parameters_as: order is a text: use"),
    ("[kernel]", '[kernel]\nparameters_as = "template"', "scale.toml:4: kernel.entry: a template needs its arguments"),
    ("width = 1000", "width = 0", "scale.toml:7: sizes.width: width must be a whole number of at least 1, not 0"),
    ("width = 1000", "width = true", "scale.toml:7: sizes.width: width must be a whole number"),
    ("height = 8", "height = 8\nflops = 1", "scale.toml:9: sizes.flops: the name 'flops' is already used"),
    ("height = 8", "height = 8\nkey = 1", "scale.toml:9: sizes.key: a size cannot be named 'key'"),
    ("width = 4096", "widht = 4096", "scale.toml:11: problem[1].widht: unknown key 'widht', did you mean width?"),
    ("width = 4096", "width = -1", "scale.toml:11: problem[1].width: width must be a whole number"),
    ("[32, 64, 128, 256, 512, 1024, 2048]", "[]", "scale.toml:18: parameters.block_x: parameter block_x has no values"),
    ("[32, 64, 128, 256, 512, 1024, 2048]", "[32, 32]", "scale.toml:18: parameters.block_x: parameter block_x has the value 32 twice"),
    ("[32, 64, 128, 256, 512, 1024, 2048]", "3", "scale.toml:18: parameters.block_x: this must be a list of values"),
    ("[32, 64, 128, 256, 512, 1024, 2048]", '"range(x)"', "scale.toml:18: parameters.block_x: unknown name 'x'"),
    ("[32, 64, 128, 256, 512, 1024, 2048]", '[32, "a"]', "scale.toml:18: parameters.block_x: the values must be all numbers"),
    ("default = 2", "default = 3", "scale.toml:19: parameters.tile.values: parameter tile cannot be 3: use one of"),
    ("default = 2", "default = []", "scale.toml:19: parameters.tile.default: this must be one of the values, not a list"),
    ("doc =", "docs =", "scale.toml:19: parameters.tile.docs: unknown key 'docs', did you mean doc?"),
    ("tile = {", "width = {", "scale.toml:19: parameters.width: the name 'width' is already used"),
    ("tile = {", '"2x" = {', 'scale.toml:19: parameters.2x: invalid name "2x"'),
    ('"block_x * tile"', '"block_y * tile"', "scale.toml:25: attributes.span: unknown name 'block_y', did you mean block_x? (column 1"),
    ('"block_x * tile"', '"block_x / tile"', 'scale.toml:25: attributes.span: "block_x / tile" is a float, but must be int or bool: use // or'),
    ('"block_x * tile"', "[1]", "scale.toml:25: attributes.span: this must be an expression, a text or a number, not a list"),
    ('WIDTH = "width"', 'tile = "width"', "scale.toml:28: defines.tile: the macro 'tile' needs a unique name"),
    ("span <= width", "span <= widht", "scale.toml:31: rule[1].expr: unknown name 'widht', did you mean width?"),
    ("span <= width", "span <= width)", "scale.toml:31: rule[1].expr: "),
    ("span <= width", "3 < 4", 'scale.toml:31: rule[1].expr: "3 < 4" is constant'),
    ("span <= width", "order", 'scale.toml:31: rule[1].expr: "order" is a text, but must be bool or int'),
    ("fast or alpha < 1", "span <= width", 'scale.toml:35: rule[2].expr: duplicate rule "span <= width"'),
    ('kind = "pruning"', 'kind = "prune"', "scale.toml:36: rule[2].kind: 'prune' is not known: did you mean pruning?"),
    ("reason =", "because =", "scale.toml:32: rule[1].because: unknown key 'because', use one of expr, kind, reason, name"),
    ("expr = \"span <= width\"\n", "", "scale.toml:30: rule[1]: expr is missing: give an expression that must hold"),
    ('block = "block_x"\n', "", "scale.toml:38: launch: block is missing"),
    ('grid = [', 'problem_size = "width"\ngrid = [', "scale.toml:38: launch: give either grid (number of"),
    ('"height"]\nshared', '"height", 1, 1]\nshared', "scale.toml:40: launch.grid: at most three axes"),
    ("ceil_div(width, span)", "width / span", 'scale.toml:40: launch.grid: "width / span" is a float'),
    ("4 * span", "'x'", "scale.toml:41: launch.shared_bytes: \"'x'\" is a text, but must be int"),
    ("span =", "grid_dim_x =", "scale.toml:25: attributes.grid_dim_x: the name 'grid_dim_x' is already used"),
    ('name = "out"', 'name = "input"', "scale.toml:50: argument[2].name: the argument 'input' needs a unique name"),
    ('kind = "output"', 'kind = "out"', "scale.toml:45: argument[1].kind: 'out' is not known: did you mean"),
    ('kind = "output"', 'kind = "input"', 'scale.toml: no [[argument]] is an output'),
    ('dtype = "float"', 'dtype = "flaot"', "scale.toml:46: argument[1].dtype: 'flaot' is not known: did you mean float?"),
    ('dtype = "float"\n', "", "scale.toml:43: argument[1]: dtype is missing: give a text"),
    ('dtype = "float"\nshape = ["height", "width"]', 'dtype = "float"\nshape = ["depth"]', "scale.toml:47: argument[1].shape: unknown name 'depth'"),
    ('dtype = "float"\nshape = ["height", "width"]', 'dtype = "float"\nshape = ["tile"]', "scale.toml:43: argument[1]: the shape of out depends on parameters"),
    ('dtype = "float"\nshape = ["height", "width"]', 'dtype = "float"\nshape = ["height - 3"]', 'scale.toml:47: argument[1].shape: "height - 3" is 0 for height = 3'),
    ('dtype = "float"\nshape = ["height", "width"]', 'dtype = "float"', "scale.toml:43: argument[1]: shape is missing"),
    ("{ uniform = [-1, 1] }", '"random"', "scale.toml:54: argument[2].fill: 'random' is not a fill: use one of normal"),
    ("{ uniform = [-1, 1] }", "{ uniform = [1, -1] }", "scale.toml:54: argument[2].fill: uniform needs the smaller"),
    ("{ uniform = [-1, 1] }", "{ uniform = 3 }", "scale.toml:54: argument[2].fill: uniform needs 2 numbers"),
    ("{ uniform = [-1, 1] }", '"constant"', "scale.toml:54: argument[2].fill: constant needs 1 number"),
    ("{ uniform = [-1, 1] }", "{ integers = [0.5, 2] }", "scale.toml:54: argument[2].fill: integers needs two whole"),
    ("{ uniform = [-1, 1] }", '{ file = "no.npy" }', "scale.toml:54: argument[2].fill: the file 'no.npy'"),
    ("{ uniform = [-1, 1] }", '"file"', "scale.toml:54: argument[2].fill: give the file"),
    ('value = "width"\n', "", "scale.toml:56: argument[3]: value is missing: give the scalar's value"),
    ('value = "width"', 'value = "hieght"', "scale.toml:59: argument[3].value: unknown name 'hieght', did you mean height?"),
    ('value = "width"', 'value = "width"\nfill = 1', "scale.toml:60: argument[3].fill: unknown key 'fill'"),
    ("reference.py:scale", "reference.py", "scale.toml:67: reference.python: 'reference.py' is not of the form"),
    ("reference.py:scale", "nowhere.py:scale", "scale.toml:67: reference.python: cannot read "),
    ("reference.py:scale", "reference.py:scala", "scale.toml:67: reference.python: reference.py has no function 'scala'"),
    ('python = "reference.py:scale"', 'python = "reference.py:scale"\nkernel = "x"', "scale.toml:66: reference: give one reference"),
    ('python = "reference.py:scale"', 'kernel = "x.toml"', "scale.toml:67: reference.kernel: the file 'x.toml'"),
    ('python = "reference.py:scale"', 'kernel = "scale.toml"', "scale.toml:67: reference.kernel: the references form a cycle"),
    ('python = "reference.py:scale"', "config = { til = 2 }", "scale.toml:67: reference.config.til: unknown parameter 'til': did you mean tile?"),
    ('python = "reference.py:scale"', "config = { tile = 3 }", "scale.toml:67: reference.config.tile: parameter tile cannot be 3"),
    ('python = "reference.py:scale"', "config = { tile = [] }", "scale.toml:67: reference.config.tile: this must be one of the parameter's"),
    ('python = "reference.py:scale"', 'python = "reference.py:scale"\nconfig = { tile = 2 }', "scale.toml:68: reference.config: config does not apply"),
    ("[cost]", "[tolerance]\nout = { atol = -1 }\n[cost]", "scale.toml:70: tolerance.out.atol: invalid "),
    ("[cost]", "[tolerance]\nout = { rtol = inf }\n[cost]", "scale.toml:70: tolerance.out.rtol: invalid "),
    ("[cost]", "[tolerance]\nout = { atol = '0 - 1' }\n[cost]", "scale.toml:69: tolerance.atol: invalid "),
    ("[cost]", "[tolerance]\nouts = { atol = 1 }\n[cost]", "scale.toml:70: tolerance.outs: unknown key 'outs', did you mean out?"),
    ('flops = "width * height"', 'flops = "width * tile"', "scale.toml:70: cost.flops: unknown name 'tile'"),
    ("[cost]", "[cost]\nbyte = 3", "scale.toml:70: cost.byte: unknown key 'byte', did you mean bytes?"),
    ("[cost]", "[proxy]\nwidht = 3\n[cost]", "scale.toml:70: proxy.widht: unknown size 'widht': did you mean width?"),
    ("[cost]", "[proxy]\nwidth = \"width / 2\"\n[cost]", 'scale.toml:70: proxy.width: "width / 2" is a float'),
    ("height / time", "height / tme", 'scale.toml:74: metrics.elements/s: unknown name \'tme\', did you mean time?'),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "line"), WRONG, ids=[line for _, _, line in WRONG])
def test_invalid_kernel_files_are_rejected_with_file_and_line(write: Write, old: str, new: str, line: str) -> None:
    path = write(TOML.replace(old, new, 1) if old in TOML else pytest.fail(old))
    with pytest.raises(KernelFileError) as error:
        read_file(path)
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)


def test_missing_and_binary_files_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(KernelFileError, match=r"^none\.toml: cannot read it: no such file or directory$"):
        read_file(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(KernelFileError, match=r"^binary\.toml: this is not UTF-8 text$"):
        read_file(tmp_path / "binary.toml")


def test_a_kernel_file_without_parameters_is_rejected(write: Write) -> None:
    start, end = TOML.index("[parameters]"), TOML.index("[attributes]")
    with pytest.raises(KernelFileError, match=r"^scale\.toml: parameters: there is nothing to tune"):
        read_file(write(TOML[:start] + TOML[end:]))


def test_lines_are_found_after_strings_of_several_lines(write: Write) -> None:
    text = '[kernel]\nsummary = """\n[sizes]\nentry = 3\n"""\n' + TOML.removeprefix("[kernel]\n").replace(
        "tile = {", "tiel = {"
    )
    with pytest.raises(KernelFileError, match=r"^scale\.toml:29: attributes\.span: unknown name 'tile'"):
        read_file(write(text))


def test_a_template_is_instantiated_by_its_entry(write: Write) -> None:
    source = "template <typename T, int N> __global__ void scale(T* out) {}"
    file = read_file(write(TOML, ('entry = "scale"', 'entry = "scale<float, tile>"'), source=source))
    assert (file.passing, file.entry) == ("template", "scale<float, tile>")


def test_an_npy_file_is_part_of_the_problems_identity(write: Write, tmp_path: Path) -> None:
    change = ("{ uniform = [-1, 1] }", '{ file = "in.npy" }')
    np.save(tmp_path / "in.npy", np.zeros((8, 4096)))
    first = read_file(write(TOML, change)).computes
    np.save(tmp_path / "in.npy", np.ones((8, 4096)))
    assert read_file(write(TOML, change)).computes != first


def test_another_kernel_file_may_be_the_reference(write: Write, tmp_path: Path) -> None:
    write()
    (tmp_path / "naive.toml").write_text(TOML.replace("tile = {", "tile = {"))
    path = write(
        TOML,
        ('python = "reference.py:scale"', 'kernel = "naive.toml"\nconfig = { tile = 4, alpha = 2.0, fast = true }'),
    )
    reference = read_file(path).reference
    assert reference.kernel is not None and reference.kernel.name == "naive"
    assert reference.config == (("tile", 4), ("alpha", "2.0"), ("fast", 1))
    (tmp_path / "naive.toml").write_text(TOML.replace('name = "input"', 'name = "x"'))
    with pytest.raises(KernelFileError, match=r"reference\.kernel: naive\.toml has arrays other than input, out"):
        read_file(path)


JUNK = [
    None,
    True,
    -1,
    0,
    2**70,
    1.5,
    float("nan"),
    "",
    "x",
    "width",
    "1 / 0",
    "\0",
    [],
    [[]],
    ["x"],
    [1, "x"],
    {},
    {"x": 1},
]


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [*([path] if path else []), *(p for key, part in inner for p in paths(part, (*path, key)))]


def test_the_definition_of_the_entry_is_located(write: Write) -> None:
    path = write(TOML, ('source = "scale.cu"', 'source = ["first.cu", "scale.cu"]'))
    (path.parent / "first.cu").write_text("/* scale(float x) {\n*/\n__device__ int helper(int i) { return i; }\n")
    second = path.parent / "scale.cu"
    second.write_text(f"/* two\nlines */\n{second.read_text()}")
    line = 1 + next(i for i, text in enumerate(second.read_text().splitlines()) if "scale(" in text)
    assert read_file(path).defined_at == (str(second), line)
    without_file = read_document(tomllib.loads(TOML), KeyPositions("x"), path.parent, default_name="x", source=SOURCE)
    assert without_file.defined_at == ("", 0)


PATHS = paths(tomllib.loads(TOML))


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(path=st.sampled_from(PATHS), junk=st.sampled_from(JUNK), key=st.sampled_from([None, "x", 3, "value", ""]))
def test_a_wrong_value_anywhere_is_read_or_rejected_in_one_line(write: Write, path: Any, junk: Any, key: Any) -> None:
    folder = write().parent
    document = tomllib.loads(TOML)
    inner = document
    for part in path[:-1]:
        inner = inner[part]
    if key is None or not isinstance(inner, dict):
        inner[path[-1]] = junk
    else:
        inner[key] = inner.pop(path[-1])
    try:
        file = read_document(document, KeyPositions("scale.toml"), folder, default_name="scale")
    except KernelFileError as error:
        assert str(error).startswith("scale.toml") and "\n" not in str(error)
    else:
        assert file.content and file.computes and problem_type(file).of({}) is not None
