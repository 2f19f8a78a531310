"""The problem of a user's kernel: identity, operands, inputs, reference and tolerance."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from autosched.user_kernels import KernelFileError
from autosched.user_kernels.kernel_file import KernelFile
from autosched.user_kernels.problem import KernelProblem, problem_type
from autosched.user_kernels.reading.kernel_files import read_file
from measurements.trials.comparison import check
from search_spaces.operators.operator import Operator

from .conftest import SOURCE, TOML

Write = Callable[..., Path]
C_TYPES = {
    "f32": "float",
    "f16": "__half",
    "f64": "double",
    "i32": "int",
    "u8": "unsigned char",
    "bool": "bool",
    "bf16": "__nv_bfloat16",
    "i64": "long long",
    "int64": "long long",
    "uint64": "unsigned long long",
}


def problem(file: KernelFile, **sizes: int) -> KernelProblem:
    return problem_type(file).of(sizes)


def test_the_identity_of_a_problem(kernel_file: KernelFile, write: Write) -> None:
    kernel_problem = problem(kernel_file, width=64)
    assert kernel_problem == problem(kernel_file, width=64, height=8) != problem(kernel_file, width=65)
    assert hash(kernel_problem) == hash(problem(read_file(write()), width=64))
    assert kernel_problem.key() == f'{{"computes":"{kernel_file.computes}","height":8,"operator":"scale","width":64}}'
    assert problem_type(kernel_file).from_json(kernel_problem.to_json()) == kernel_problem


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(width=st.integers(1, 10**6), height=st.integers(1, 10**6))
def test_problems_survive_json(kernel_file: KernelFile, width: int, height: int) -> None:
    kernel_problem = problem(kernel_file, width=width, height=height)
    assert problem_type(kernel_file).from_json(kernel_problem.to_json()) == kernel_problem


def test_a_problem_of_another_version_is_rejected(kernel_file: KernelFile, write: Write) -> None:
    data = problem(kernel_file).to_json()
    other = read_file(write(TOML, ("[-1, 1]", "[0, 1]")))
    with pytest.raises(ValueError, match="recorded when scale had other arguments"):
        problem_type(other).from_json(data)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"depth": 3}, "scale has no size 'depth': use width, height"),
        ({"width": 0}, "width must be a whole number of at least 1, not 0"),
        ({"width": 2.5}, "width must be a whole number"),
    ],
)
def test_wrong_sizes(kernel_file: KernelFile, sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        problem(kernel_file, **sizes)


def test_sizes_that_leave_an_array_empty(write: Write) -> None:
    file = read_file(write(TOML, ('shape = ["height", "width"]\nfill', 'shape = ["height - 1", "width"]\nfill')))
    with pytest.raises(ValueError, match=r"input would have the shape \(0, 1000\): use larger sizes"):
        problem(file, height=1)


def test_the_options_of_the_operator_are_the_sizes(kernel_file: KernelFile) -> None:
    operator = Operator.of(problem_type(kernel_file))
    assert [(o.flags, o.type, o.default) for o in operator.options] == [
        (("--width",), int, 1000),
        (("--height",), int, 8),
    ]
    assert operator.make(width=5, height=2) == problem(kernel_file, width=5, height=2)


def test_operands_and_flops(kernel_file: KernelFile) -> None:
    kernel_problem = problem(kernel_file, width=16)
    assert [(o.name, o.role, o.dtype.name, o.shape) for o in kernel_problem.operands()] == [
        ("out", "output", "f32", (8, 16)),
        ("input", "input", "f32", (8, 16)),
    ]
    assert kernel_problem.flops == 128 and kernel_problem.min_bytes == 1024


@pytest.mark.parametrize(
    ("dtype", "fill", "expected"),
    [
        ("f32", '"normal"', lambda x: abs(x.mean()) < 0.2 and 0.8 < x.std() < 1.2),
        ("f16", "{ normal = [5, 0.5] }", lambda x: 4.8 < x.mean() < 5.2 and 0.4 < x.std() < 0.6),
        ("f64", "{ uniform = [-1, 3] }", lambda x: x.min() >= -1 and x.max() <= 3 and 0.5 < x.mean() < 1.5),
        ("i32", "{ integers = [-2, 2] }", lambda x: set(np.unique(x)) == {-2, -1, 0, 1, 2}),
        ("u8", '"integers"', lambda x: x.min() == 0 and x.max() == 15),
        ("bool", '"integers"', lambda x: set(np.unique(x)) == {False, True}),
        ("bf16", "{ constant = 1.0 }", lambda x: bool((x == 0x3F80).all())),
        ("i64", '"zeros"', lambda x: not x.any()),
    ],
)
def test_inputs_are_filled_as_the_file_specifies(
    write: Write, dtype: str, fill: str, expected: Callable[[Any], bool]
) -> None:
    changes = (('dtype = "float32"', f'dtype = "{dtype}"'), ("{ uniform = [-1, 1] }", fill))
    source = SOURCE.replace("const float* in", f"const {C_TYPES[dtype]}* in")
    kernel_problem = problem(read_file(write(TOML, *changes, source=source)))
    (name, array), *other_inputs = kernel_problem.random_inputs(7).items()
    assert (name, other_inputs, array.shape) == ("input", [], (8, 1000))
    assert array.dtype == np.dtype(kernel_problem.operands()[1].dtype.storage)
    assert expected(array)
    assert np.array_equal(array, kernel_problem.random_inputs(7)["input"])
    if fill not in ('"zeros"', "{ constant = 1.0 }"):
        assert not np.array_equal(array, kernel_problem.random_inputs(8)["input"])


def test_an_input_from_a_file(write: Write, tmp_path: Path) -> None:
    np.save(tmp_path / "in.npy", np.arange(8000.0).reshape(8, 1000))
    file = read_file(write(TOML, ("{ uniform = [-1, 1] }", '{ file = "in.npy" }')))
    array = problem(file).random_inputs(0)["input"]
    assert array.dtype == np.float32 and array[7, 999] == 7999
    with pytest.raises(ValueError, match=r"in\.npy has the shape \(8, 1000\), but input is \(8, 10\)"):
        problem(file, width=10).random_inputs(0)
    (tmp_path / "in.npy").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"in\.npy is not a .npy file of numbers"):
        problem(file).random_inputs(0)


@pytest.mark.parametrize("fill", ['{ file = "in.npy" }', '{ python = "reference.py:ones" }'])
def test_the_current_folder_may_change(
    fill: str, write: Write, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file given by a relative path is still found after a change of the working folder."""
    path = write(TOML, ("{ uniform = [-1, 1] }", fill))
    np.save(tmp_path / "in.npy", np.ones((8, 1000), np.float32))
    with (tmp_path / "reference.py").open("a") as file:
        file.write("\n\ndef ones():\n    import numpy\n    return numpy.ones((8, 1000))\n")
    monkeypatch.chdir(tmp_path)
    kernel_problem = problem(read_file(path.name))
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    inputs = kernel_problem.random_inputs(0)
    assert np.all(inputs["input"] == 1) and np.all(kernel_problem.reference(inputs)["out"] == 3)


def test_a_python_function_is_the_reference(kernel_file: KernelFile) -> None:
    kernel_problem = problem(kernel_file, width=16)
    inputs = kernel_problem.random_inputs(0)
    expected = kernel_problem.reference(inputs)
    assert expected["out"].dtype == np.float64
    assert np.array_equal(expected["out"], 3.0 * inputs["input"].astype(np.float64))
    tolerance = kernel_problem.tolerance(inputs)["out"]
    share = 4 * 2.0**-24 + 256 * 2.0**-24
    level = np.sqrt(np.mean(np.square(expected["out"])))
    assert np.allclose(tolerance, share * (level + np.abs(expected["out"])), rtol=1e-12)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("out = { atol = 1e-3 }", lambda expected_values: np.full(expected_values.shape, 1e-3)),
        ("rtol = 1e-2", lambda expected_values: 1e-2 * np.abs(expected_values)),
        ("atol = 1\nrtol = 0", lambda expected_values: np.ones(expected_values.shape)),
    ],
)
def test_tolerances_of_the_file(write: Write, text: str, expected: Callable[[Any], Any]) -> None:
    kernel_problem = problem(read_file(write(TOML, ("[cost]", f"[tolerance]\n{text}\n[cost]"))))
    inputs = kernel_problem.random_inputs(0)
    assert np.allclose(kernel_problem.tolerance(inputs)["out"], expected(kernel_problem.reference(inputs)["out"]))


def test_integers_must_be_equal(write: Write) -> None:
    kernel_problem = problem(read_file(write(TOML, ('dtype = "float"', 'dtype = "int"'))))
    assert not kernel_problem.tolerance(kernel_problem.random_inputs(0))["out"].any()


@pytest.mark.parametrize(("dtype", "large"), [("int64", 2**62 + 1), ("int64", -(2**63)), ("uint64", 2**64 - 1)])
def test_integers_beyond_float_precision_must_be_equal(write: Write, tmp_path: Path, dtype: str, large: int) -> None:
    path = write(
        TOML,
        ('kind = "output"\ndtype = "float"', f'kind = "output"\ndtype = "{dtype}"'),
        ('dtype = "float32"', f'dtype = "{dtype}"'),
        ("fill = { uniform = [-1, 1] }", "fill = { integers = [0, 9] }"),
        ("reference.py:scale", "reference.py:same"),
        source=SOURCE.replace("float*", f"{C_TYPES[dtype]}*"),
    )
    (tmp_path / "reference.py").write_text("def same(input):\n    return input\n")
    two = problem(read_file(path), width=2, height=1)
    inputs = {"input": np.array([[1, large]], dtype)}
    assert check(two, inputs, {"out": inputs["input"].copy()}).ok
    near = inputs["input"] - np.array([[0, 1 if large > 0 else -1]]).astype(dtype)
    wrong = check(two, inputs, {"out": near})
    assert not wrong.ok and wrong.worst == np.inf and "1 of 2 elements are wrong" in wrong.reason
    assert float(near[0, 1]) == float(large), "as floats they are equal"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("two", r"the reference reference\.py:two must return out, but it returns out, more"),
        (
            "wrong_shape",
            r"reference\.py:wrong_shape returns out with shape \(1000,\), but the shape must be \(8, 1000\)",
        ),
        ("wrong_name", r"reference\.py:wrong_name has an unknown parameter weights: use width, height, factor, input"),
        ("fails", r"reference\.py:fails fails at line 18: RuntimeError: no luck$"),
        ("words", r"reference\.py:words returns no numbers for out"),
    ],
)
def test_a_failing_reference_is_reported_in_one_line(write: Write, function: str, message: str) -> None:
    kernel_problem = problem(read_file(write(TOML, ("reference.py:scale", f"reference.py:{function}"))))
    with pytest.raises(ValueError, match=message) as error:
        kernel_problem.reference(kernel_problem.random_inputs(0))
    assert "\n" not in str(error.value)


def test_a_kernel_as_reference_is_emulated(write: Write) -> None:
    kernel_problem = problem(
        read_file(write(TOML, ('python = "reference.py:scale"', "config = { tile = 4 }"))), width=200
    )
    by_python = problem(read_file(write(TOML)), width=200)
    inputs = kernel_problem.random_inputs(0)
    assert np.allclose(kernel_problem.reference(inputs)["out"], by_python.reference(inputs)["out"], rtol=1e-6)
    assert kernel_problem.tolerance(inputs)["out"].shape == (8, 200)


def test_an_infinity_of_a_reference_kernel_may_be_the_largest_number(write: Write) -> None:
    of_kernel = problem(read_file(write(TOML, ('python = "reference.py:scale"', "config = { tile = 4 }"))), width=200)
    of_function = problem(read_file(write(TOML)), width=200)
    inputs = {"input": np.full((8, 200), 2e38, np.float32)}  # 3 * x exceeds the largest float
    largest, infinite = (np.full((8, 200), x, np.float32) for x in (3.4028235e38, np.inf))
    for kernel_problem, accepts_largest in ((of_kernel, True), (of_function, False)):
        assert check(kernel_problem, inputs, {"out": largest}).ok == accepts_largest
        assert check(kernel_problem, inputs, {"out": infinite}).ok
        assert not check(kernel_problem, inputs, {"out": -infinite}).ok
        assert not check(kernel_problem, inputs, {"out": largest / 2}).ok


def test_a_reference_kernel_that_cannot_run_is_reported(write: Write) -> None:
    file = read_file(write(TOML, ('python = "reference.py:scale"', "config = { tile = 4 }")))
    narrow, wide = problem(file, width=16), problem(file, width=200)
    with pytest.raises(ValueError, match=r"breaks a rule: a block must not be longer than a row$"):
        narrow.reference(narrow.random_inputs(0))
    with pytest.raises(ValueError, match=r"reads input, but this kernel has other: use the same names$"):
        wide.reference({"other": wide.random_inputs(0)["input"]})


def test_an_array_that_is_read_and_written(write: Write) -> None:
    second = TOML.index("[[argument]]", TOML.index("[[argument]]") + 1)
    third = TOML.index("[[argument]]", second + 1)
    toml = (TOML[:second] + TOML[third:]).replace('kind = "output"', 'kind = "inout"').replace(":scale", ":double")
    path = write(toml)
    (path.parent / "reference.py").write_text("double = lambda out, width: out * width\n")
    kernel_problem = problem(read_file(path), width=4)
    inputs = kernel_problem.random_inputs(0)
    assert [(o.name, o.role) for o in kernel_problem.operands()] == [("out", "inout")]
    assert np.array_equal(kernel_problem.reference(inputs)["out"], 4.0 * inputs["out"])


def test_a_kernel_that_is_the_reference_has_a_time_limit(write: Write) -> None:
    source = "__global__ void scale(float* out, const float* in, int width, float factor) { for (;;) __threadfence(); }"
    python = '[reference]\npython = "reference.py:scale"'
    changes = (python, "[reference]\ntime_limit = 0.1")
    kernel_problem = problem(read_file(write(TOML, changes, source=source)), width=64)
    with pytest.raises(
        KernelFileError, match=r"not emulated within 0\.1 s: .* write time_limit = 1 under \[reference\]"
    ):
        kernel_problem.reference(kernel_problem.random_inputs(0))


def test_the_last_file_read_sets_the_limits_of_a_function(write: Write) -> None:
    python = '[reference]\npython = "reference.py:scale"'
    files = [read_file(write(TOML, (python, f"{python}\ntime_limit = {limit}"))) for limit in (60, 70)]
    assert files[0] == files[1]
    limits = [problem_type(file).file.reference.function for file in files]
    assert [f is not None and f.time_limit for f in limits] == [60, 70]
    fill = "fill = { python = 'reference.py:scale', time_limit = 5, memory_limit = 2 }"
    file = read_file(write(TOML, ("fill = { uniform = [-1, 1] }", fill)))
    function = next(a.fill.function for a in file.arguments if a.fill is not None)
    assert function is not None and (function.time_limit, function.memory_limit) == (5, 2 << 30)
