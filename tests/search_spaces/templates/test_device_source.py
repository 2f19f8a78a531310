"""Generated source contains only the constants that its code uses, so that schedules may share one compiled kernel."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from search_spaces.catalogue import template, templates_for
from search_spaces.hardware.devices import device
from search_spaces.launches.generated_kernel import GeneratedKernel
from search_spaces.launches.headers import Headers, has_identifier, identifiers, include_dir, package_headers
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.config import Config
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates.common.cache_hints import evict_arguments
from search_spaces.templates.device_source import DeviceSource

PROBLEM = Matmul(512, 512, 512, a="bf16")
LARGE = Matmul(8192, 8192, 8192, a="bf16")
H100 = device("h100")


def _kernel(types: dict[str, str]) -> GeneratedKernel:
    config = Config(
        Schedule("some", (("nobody_reads_it", 4), ("tile_m", 64))),
        (("threads", 128), ("min_blocks", 1), ("shared_bytes", 0)),
    )
    source = DeviceSource("autosched/kernels/copy.cuh", "autosched::copy")
    return source.kernel(config, constants={}, types=types, arguments=(), call=(), blocks=1)


@pytest.mark.parametrize("types, expected", [({}, False), ({"T": "Tile<nobody_reads_it>"}, True)])
def test_a_constant_used_by_a_header_or_a_type_is_kept(types: dict[str, str], expected: bool) -> None:
    source = _kernel(types).source
    assert "int tile_m = 64;" in source
    assert ("int nobody_reads_it = 4;" in source) == expected


CODE = (
    "// one\nint two; /* three\n four */ int five; #define SIX(x) seven##x\n",
    "int two;  // three, five\nint six_five, one2; // two\n",
    "1one 2two2 seven\n// 3three",
    "\u00e9one; auto six\u00e9 = 'x';",
    "",
)


def test_names_in_comments_are_ignored() -> None:
    names = {"int", "two", "five", "define", "SIX", "x", "seven"}
    assert identifiers(CODE[0]) == names
    headers = Headers.of({"a.cuh": CODE[0]})
    assert {name for name in (*names, "one", "three", "four", "SEVEN", "fiv") if headers.has_identifier(name)} == names


@pytest.mark.parametrize("text", CODE, ids=range(len(CODE)))
def test_has_identifier_agrees_with_identifiers(text: str) -> None:
    names = {name for code in CODE for name in re.findall(r"[A-Za-z_]\w*|[A-Za-z]", code)}
    assert {name for name in names if has_identifier(text, name)} == identifiers(text) & names


def test_has_identifier_agrees_with_identifiers_of_our_headers() -> None:
    headers = package_headers()
    names = frozenset[str]().union(*(identifiers(text) for _, text in headers.files))
    words = {word for _, text in headers.files for word in text.split() if word.isidentifier()}
    assert len(words - names) > 100  # words that occur only in comments
    sample = set(sorted(names | words)[::5])
    assert {name for name in sample if headers.has_identifier(name)} == names & sample


@pytest.mark.parametrize("template", ["wgmma_matmul", "tma_matmul"])
def test_schedules_that_only_differ_in_tensor_maps_share_code(template: str) -> None:
    templates = templates_for(PROBLEM, H100)
    space = templates.space(PROBLEM, H100).members[template]
    pairs = 0
    for schedule in space.sample(200, 0):
        values = schedule.values
        other = Schedule(template, tuple((values | {"l2_promotion": 384 - int(values["l2_promotion"])}).items()))
        if other not in space:
            continue
        one, two = (templates.kernel(PROBLEM, s, H100) for s in (schedule, other))
        assert one.digest != two.digest
        assert one.code_digest == two.code_digest
        pairs += 1
    assert pairs > 20


def test_code_depends_on_sources_headers_options_entry_and_shared_memory() -> None:
    kernel = GeneratedKernel(
        entry="f",
        source="//",
        headers=Headers.from_folder(include_dir()),
        arguments=(),
        grid=(1, 1, 1),
        block=(32, 1, 1),
    )
    same = dataclasses.replace(kernel, grid=(2, 1, 1), block=(64, 1, 1), repeatable=True)
    assert kernel.digest != same.digest
    assert kernel.code_digest == same.code_digest
    changes = (
        {"source": "///"}, {"headers": Headers()}, {"compile_options": ("-DA",)}, {"entry": "g"},
        {"dynamic_shared_bytes": 16},
    )  # fmt: skip
    digests = {dataclasses.replace(kernel, **change).code_digest for change in changes}
    assert len(digests | {kernel.code_digest}) == len(changes) + 1


LAUNCH_DECISIONS = {
    "raster": ("row", "column", "grouped_2", "grouped_4", "grouped_8", "grouped_16"),
    "l2_evict_last": ("none", "a", "b"),
    "l2_promotion": (128, 256),
}


@pytest.mark.parametrize(
    ("name", "on", "names"),
    [
        ("wgmma_matmul", "h200", set(LAUNCH_DECISIONS)),
        ("wgmma_matmul_transposed", "h200", set(LAUNCH_DECISIONS)),
        ("tcgen05_matmul", "b200", set(LAUNCH_DECISIONS)),
        ("tma_matmul", "rtx5090", {"raster", "l2_promotion"}),
        ("matmul", "rtx4090", {"raster"}),
    ],
)
def test_launch_parameters_do_not_change_the_code(name: str, on: str, names: set[str]) -> None:
    """Each launch parameter changes the launch and not the code."""
    problem = dataclasses.replace(LARGE, m=64) if "transposed" in name else LARGE
    kernel_template, target = template(name), device(on)
    space, compared = kernel_template.space(problem, target).valid, dict.fromkeys(names, 0)
    assert {p.name for p in space.parameters if p.at_launch} == names
    for schedule in kernel_template.space(problem, target).sample(12, 1):
        one = kernel_template.kernel(problem, schedule, target)
        for decision in names:
            values = LAUNCH_DECISIONS[decision]
            if schedule[decision] not in values:
                continue
            for value in values:
                other = Schedule(name, tuple((schedule.values | {decision: value}).items()))
                if value != schedule[decision] and other in space:
                    changed = kernel_template.kernel(problem, other, target)
                    assert changed.code_digest == one.code_digest, (schedule, decision, value)
                    compared[decision] += 1
    assert min(compared.values()) > 0, compared


def test_cache_policies_agree_with_the_device_code() -> None:
    text = (Path(include_dir()) / "autosched/ptx/tensor_map/tensor_map.cuh").read_text()
    code = {name: int(number, 16) for name, number in re.findall(r"(normally|first|last) = (0x\w+)ull", text)}
    for operand, expected in {"none": ("normally", "normally"), "a": ("last", "first"), "b": ("first", "last")}.items():
        arguments = evict_arguments(operand)
        assert [(a.name, a.value) for a in arguments] == [
            (f"evict_{side}", code[name]) for side, name in zip("ab", expected, strict=True)
        ]
