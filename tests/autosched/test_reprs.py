"""Exported objects have a short repr, whatever they contain."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from needs import needs_compiler, needs_nvrtc

import autosched
import search_spaces.programs.builder as tile
from autosched import Matmul
from autosched.tuning.result import TuneResult
from search_spaces.hardware.devices import all_devices
from search_spaces.launches.headers import Headers
from search_spaces.short_repr import MOST, short_repr
from search_spaces.spaces.schedule import Schedule

MOST_CHARACTERS = 1000
LARGE = np.random.default_rng(0).random((300, 300))
PROBLEM = Matmul(m=512, n=512, k=512)
LINES = "\n".join(f"// {'=' * 90} {i}" for i in range(300))
SOURCE = f"{LINES}\n__global__ void add(float* y, int n) {{ y[threadIdx.x + 5] += n; y[threadIdx.x] = 1; }}"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> TuneResult:
    file = tmp_path_factory.mktemp("repr") / "best.db"
    return autosched.tune(PROBLEM, trials=2, device="h200", backend="estimate", database=file)


def emulated() -> autosched.EmulatedLaunch:
    return autosched.emulate(SOURCE, arguments=[np.zeros(3000, np.float32), 1], grid=1, block=1024, outputs=(0,))


def finding() -> autosched.Finding:
    first: autosched.Finding = emulated().findings[0]
    return first


def kernel() -> autosched.KernelSpec:
    return autosched.KernelSpec(
        SOURCE,
        name="add",
        entry="add",
        parameters={"block": list(range(32, 1024, 32))},
        sizes={"n": 200},
        grid=1,
        block="block",
        arguments=[
            {"name": "y", "kind": "output", "dtype": "f32", "shape": ["n"]},
            {"name": "n", "kind": "scalar", "value": "n"},
        ],
        reference=lambda n: LARGE,
    )


EXAMPLES: dict[str, Callable[[TuneResult], Any]] = {
    "Attention": lambda _: autosched.Attention(batch=1, heads=2, kv_heads=1, queries=64),
    "AttentionBackward": lambda _: autosched.AttentionBackward(batch=1, heads=2, kv_heads=1, queries=64),
    "CrossEntropy": lambda _: autosched.CrossEntropy(rows=8, columns=100),
    "CrossEntropyBackward": lambda _: autosched.CrossEntropyBackward(rows=8, columns=100),
    "LinearCrossEntropy": lambda _: autosched.LinearCrossEntropy(rows=8, columns=100, k=64),
    "LinearCrossEntropyDlogits": lambda _: autosched.LinearCrossEntropyDlogits(rows=8, columns=100, k=64),
    "DecodeAttention": lambda _: autosched.DecodeAttention(batch=1, heads=2, kv_heads=1, entries=4),
    "GroupedMatmul": lambda _: autosched.GroupedMatmul(m=64, n=64, k=64, groups=4),
    "QkNormRope": lambda _: autosched.QkNormRope(tokens=8, heads=2),
    "QkNormRopeAppend": lambda _: autosched.QkNormRopeAppend(tokens=8, heads=2, kv_heads=1),
    "QuantizedMatmul": lambda _: autosched.QuantizedMatmul(m=16, n=64, k=128),
    "RmsNormQuantize": lambda _: autosched.RmsNormQuantize(rows=8, columns=64),
    "RouterTopK": lambda _: autosched.RouterTopK(tokens=8, experts=64),
    "Copy": lambda _: autosched.Copy(rows=64, columns=64),
    "Database": lambda r: autosched.Database(r.database),
    "Device": lambda _: max(all_devices(), key=lambda row: len(repr(row))),
    "EmulatedLaunch": lambda _: emulated(),
    "EmulatedLaunchOptions": lambda _: autosched.EmulatedLaunchOptions(
        headers={LINES: LINES}, symbols={f"s{i}": LARGE for i in range(50)}, outputs=range(10**6), options=[LINES] * 50
    ),
    "Finding": lambda _: finding(),
    "Im2col": lambda _: autosched.Im2col((0, 0), (1, 1), 4, 8),
    "KernelSpec": lambda _: kernel(),
    "KernelOptions": lambda _: autosched.KernelOptions(
        parameters={f"p{i}": list(range(500)) for i in range(50)}, arguments=[{"name": LINES}] * 20, reference=finding
    ),
    "LayerNorm": lambda _: autosched.LayerNorm(rows=8, columns=8),
    "Matmul": lambda _: PROBLEM,
    "Matvec": lambda _: autosched.Matvec(m=1, n=64, k=64),
    "Order": lambda _: autosched.Order("random", 3),
    "Provenance": lambda _: autosched.Provenance.ESTIMATED,
    "Trial": lambda r: r.best,
    "Reduce": lambda _: autosched.Reduce(rows=8, columns=8),
    "RmsNorm": lambda _: autosched.RmsNorm(rows=8, columns=8),
    "Schedule": lambda r: Schedule("matmul", tuple((f"parameter_{i}", 2**i) for i in range(200))),
    "Softmax": lambda _: autosched.Softmax(rows=8, columns=8),
    "Struct": lambda _: autosched.Struct(LARGE, LARGE, bytes(5000), *range(500)),
    "StudySampler": lambda _: _study_sampler(),
    "Surface": lambda _: autosched.Surface(LARGE),
    "TensorMapOf": lambda _: autosched.TensorMapOf(LARGE, (4, 4)),
    "Texture": lambda _: autosched.Texture(LARGE),
    "Transpose": lambda _: autosched.Transpose(rows=8, columns=8),
    "TuneOptions": lambda _: autosched.TuneOptions(trials=9, templates=[LINES] * 50, gpus=list(range(500))),
    "TuneResult": lambda r: r,
}
RETURNED: dict[str, Callable[[TuneResult], Any]] = {  # objects that exported functions return
    "Answer": lambda r: autosched.Database(r.database).look_up(PROBLEM, "h200"),
    "a generated kernel": lambda r: autosched.Database(r.database).look_up(PROBLEM, "h200").kernel,
    "its headers": lambda _: Headers.of({f"h{i}.h": LINES for i in range(50)}),
    "Emulation": lambda _: emulated().emulation,
    "a problem of a kernel": lambda _: kernel().problem(),
    "a schedule": lambda r: r.best.schedule,
    "a tile program": lambda _: tile.program(x=tile.Input("m n", "f16"), y=tile.Output("m n", "f16"))(_scale),
}


def _scale(p: tile.Builder, x: object, y: object) -> None:
    raise NotImplementedError


def _study_sampler() -> Any:
    pytest.importorskip("optuna")
    return autosched.StudySampler(seed=0)


def test_every_exported_class_has_an_example() -> None:
    classes = {name for name in autosched.__all__ if inspect.isclass(getattr(autosched, name))}
    raised = {name for name in classes if issubclass(getattr(autosched, name), BaseException)}
    assert classes - raised == set(EXAMPLES)


@needs_compiler
@needs_nvrtc
@pytest.mark.parametrize("name", [*EXAMPLES, *RETURNED])
def test_representations_are_short(name: str, result: TuneResult) -> None:
    text = repr((EXAMPLES | RETURNED)[name](result))
    assert 0 < len(text) <= MOST_CHARACTERS, text[:300]


def test_functions_and_errors_are_short() -> None:
    for name in autosched.__all__:
        assert len(repr(getattr(autosched, name))) <= MOST_CHARACTERS


def test_a_short_representation_omits_defaults_and_truncates_values() -> None:
    text = repr(autosched.Texture(LARGE, filter="linear"))
    assert text == "Texture(array=<float64[300, 300]>, filter='linear')"
    assert short_repr(autosched.Struct(*(LARGE for _ in range(500)))).count("float64") == 3
    assert len(short_repr(Headers.of({"a" * 5000: LINES}))) <= MOST
