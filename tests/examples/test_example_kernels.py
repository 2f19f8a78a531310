"""The kernels under ``examples/``: their numbers in the emulator over sampled configurations, and that they compile."""

from __future__ import annotations

import ast
import dataclasses
import importlib.util
import math
import operator
import random
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from measurements.compile import CompileCache, Compiled, CompilePool
from measurements.emulator import EmulationJob, emulate, emulate_many
from search_spaces.hardware.dtypes import DTYPES
from search_spaces.operators.problem import Array, Operand
from search_spaces.templates.kernel import Kernel

EXAMPLES = Path(__file__).parents[2] / "examples"

# Sizes that divide nothing, and small ones, of which a block is larger than everything.
SMALL_SIZES: dict[str, tuple[dict[str, int], ...]] = {
    "vector_add": ({"n": 10_007}, {"n": 3}),
    "matmul": ({"m": 67, "n": 101, "k": 37}, {"m": 1, "n": 3, "k": 5}),
    "convolution": (
        {"width": 83, "height": 45, "filter_width": 5, "filter_height": 3},
        {"width": 40, "height": 3, "filter_width": 4, "filter_height": 7},
    ),
    "reduction": ({"n": 50_021}, {"n": 3}),
}
NAMES = tuple(SMALL_SIZES)

Values = dict[str, int]

_OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Mult: operator.mul,
    ast.Sub: operator.sub,
    ast.LtE: operator.le,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "ceil_div": lambda a, b: -(-a // b),
    "min": min,
    "max": max,
    "range": range,
}


def value_of(text: object, names: Mapping[str, int]) -> Any:
    def value(node: ast.expr) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.Name():
                return names[node.id]
            case ast.BinOp():
                return _OPERATORS[type(node.op)](value(node.left), value(node.right))
            case ast.Compare():
                return _OPERATORS[type(node.ops[0])](value(node.left), value(node.comparators[0]))
            case ast.BoolOp():
                return (all if isinstance(node.op, ast.And) else any)(value(v) for v in node.values)
            case ast.Call(func=ast.Name()):
                return _FUNCTIONS[node.func.id](*map(value, node.args))
            case _:
                raise AssertionError(ast.dump(node))

    return value(ast.parse(str(text), mode="eval").body)


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


class Example:
    """One kernel file with one set of sizes."""

    def __init__(self, name: str, sizes: Values) -> None:
        self.folder = EXAMPLES / name
        self.file = tomllib.loads((self.folder / f"{name}.toml").read_text())
        self.sizes = {**self.file["sizes"], **sizes}
        assert set(self.sizes) == set(self.file["sizes"])
        values = {n: v["values"] if isinstance(v, dict) else v for n, v in self.file["parameters"].items()}
        self.parameters = {n: list(value_of(v, {})) if isinstance(v, str) else v for n, v in values.items()}

    def names(self, config: Values) -> Values:
        names = {**self.sizes, **config}
        for name, text in self.file["attributes"].items():
            names[name] = value_of(text, names)
        return names

    def valid(self, config: Values) -> bool:
        names = self.names(config)
        return all(value_of(rule["expr"], names) for rule in self.file.get("rule", ()))

    def operands(self) -> tuple[Operand, ...]:
        return tuple(
            Operand(
                a["name"],
                a["kind"],
                DTYPES[a["dtype"]],
                tuple(value_of(s, self.sizes) for s in listed(a["shape"])),
                a.get("zeroed", False),
            )
            for a in self.file["argument"]
            if a["kind"] != "scalar"
        )

    def kernel(self, config: Values, *, scalars: bool = False) -> Kernel:
        """With ``scalars`` false, an entry that passes them on stands in front: the emulator's arguments are arrays."""
        names, launch = self.names(config), self.file["launch"]
        defines = {n: v for n, v in names.items() if n not in self.sizes} | {
            n: value_of(t, names) for n, t in self.file.get("defines", {}).items()
        }
        entry = self.file["kernel"]["entry"]
        source = "".join(f"#define {n} {v}\n" for n, v in defines.items())
        source += (self.folder / self.file["kernel"]["source"]).read_text()
        if not scalars:
            arrays = ", ".join(f"{c_type(a)}* {a['name']}" for a in self.file["argument"] if a["kind"] != "scalar")
            passed = (
                str(value_of(a["value"], names)) if a["kind"] == "scalar" else a["name"] for a in self.file["argument"]
            )
            source += f'\nextern "C" __global__ void entry({arrays}) {{ {entry}({", ".join(passed)}); }}\n'
        x, y, z = ([value_of(t, names) for t in listed(launch["block"])] + [1, 1])[:3]
        gx, gy, gz = ([value_of(t, names) for t in listed(launch["grid"])] + [1, 1])[:3]
        return Kernel(entry if scalars else "entry", source, (), self.operands(), (gx, gy, gz), (x, y, z), 0)

    def inputs(self) -> dict[str, Array]:
        rng = np.random.default_rng(1)
        fills = {a["name"]: a.get("fill") for a in self.file["argument"]}
        return {
            o.name: rng.random(o.shape, np.float32) if fills[o.name] else rng.standard_normal(o.shape, np.float32)
            for o in self.operands()
            if o.role == "input"
        }

    def expected(self, inputs: Mapping[str, Array]) -> Array:
        file, _, function = self.file["reference"]["python"].partition(":")
        spec = importlib.util.spec_from_file_location(f"reference_{self.folder.name}", self.folder / file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        result: Array = getattr(module, function)(**{n: a.astype(np.float64) for n, a in inputs.items()})
        return result

    @property
    def output(self) -> str:
        return next(o.name for o in self.operands() if o.role == "output")


def c_type(argument: Mapping[str, Any]) -> str:
    return f"{'const ' if argument['kind'] == 'input' else ''}{DTYPES[argument['dtype']].c_name}"


def sampled(example: Example, count: int) -> list[Values]:
    """Valid configurations: first each value of the short parameters, where it can be, then others."""
    rng = random.Random(0)

    def draw(**fixed: int) -> Values | None:
        drawn = ({n: rng.choice(v) for n, v in example.parameters.items()} | fixed for _ in range(300))
        return next((config for config in drawn if example.valid(config)), None)

    configs: list[Values] = []
    for name, value in ((n, v) for n, values in example.parameters.items() for v in values if len(values) <= 6):
        config = None if any(c[name] == value for c in configs) else draw(**{name: value})
        configs += [] if config is None else [config]
    while len(configs) < count:
        config = draw()
        assert config is not None
        configs.append(config)
    return configs[:count]


def mismatch(example: Example, inputs: Mapping[str, Array], ours: Array) -> float:
    """The largest error over what the file tolerates."""
    expected = example.expected(inputs)
    share = 260 * 2.0**-24  # what the sum of some thousand f32 terms gathers
    given = {"atol": share * math.sqrt(np.mean(np.square(expected))), "rtol": share}
    tolerance = example.file.get("tolerance", given)
    error = np.abs(ours.astype(np.float64) - expected)
    worst = float(np.max(error / (tolerance["atol"] + tolerance["rtol"] * np.abs(expected))))
    return worst if math.isfinite(worst) else math.inf


@pytest.mark.parametrize(("name", "which", "count"), [(name, *s) for name in NAMES for s in ((0, 20), (1, 4))])
def test_numbers_are_right(name: str, which: int, count: int) -> None:
    example = Example(name, SMALL_SIZES[name][which])
    configs = sampled(example, count)
    inputs = example.inputs()
    jobs = (EmulationJob(example.kernel(c), inputs) for c in configs)
    for config, emulation in zip(configs, emulate_many(jobs, 2), strict=True):
        assert emulation.ok, f"{config}: {emulation.reason} {emulation.log}"
        assert mismatch(example, inputs, emulation.outputs[example.output]) <= 1, config


FAULTS = [
    ("vector_add", "if (i < n) store", "if (i + 1 < n) store"),
    ("matmul", "    __syncthreads();\n#endif\n\n#pragma", "#endif\n\n#pragma"),
    ("convolution", "  __syncthreads();\n", ""),
    ("reduction", "d > 0;", "d > 1;"),
]


@pytest.mark.parametrize(("name", "right", "wrong"), FAULTS)
def test_a_broken_kernel_is_seen_to_be_wrong(name: str, right: str, wrong: str) -> None:
    example = Example(name, SMALL_SIZES[name][0])
    config = next(c for c in sampled(example, 24) if c.get("vector_width", 4) == 4 and c.get("buffers", 1) == 1)
    kernel, inputs = example.kernel(config), example.inputs()
    assert kernel.source.count(right) == 1
    broken = dataclasses.replace(kernel, source=kernel.source.replace(right, wrong))
    assert mismatch(example, inputs, emulate(kernel, inputs).outputs[example.output]) <= 1
    assert mismatch(example, inputs, emulate(broken, inputs).outputs[example.output]) > 1


def test_every_space_is_worth_searching() -> None:
    for name in NAMES:
        example = Example(name, {})
        rng = random.Random(0)
        drawn = [{n: rng.choice(v) for n, v in example.parameters.items()} for _ in range(1000)]
        valid = sum(map(example.valid, drawn)) / 1000 * math.prod(map(len, example.parameters.values()))
        assert 1e3 <= valid <= 1e6, (name, valid)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_kernels_compile(arch: str, tmp_path: Path) -> None:
    kernels = {}
    for name in NAMES:
        example = Example(name, {})
        for config in sampled(example, 2):
            kernels[f"{name} {config}"] = example.kernel(config, scalars=True)
    with CompilePool(CompileCache(tmp_path), workers=2) as pool:
        for i, result in pool.compile_many(kernels.values(), arch):
            assert isinstance(result, Compiled), (list(kernels)[i], result)
