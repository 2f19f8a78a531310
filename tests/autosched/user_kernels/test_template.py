"""The template of a user's kernel: the space (compared with brute force), the source, the version, and the counts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autosched.user_kernels import KernelFileError
from autosched.user_kernels.kernel_file import KernelFile
from autosched.user_kernels.lowering import entry_of, lower, source_of
from autosched.user_kernels.problem import problem_type
from autosched.user_kernels.reading.kernel_files import read_file
from autosched.user_kernels.template import template
from search_spaces.hardware.devices import device
from search_spaces.launches.launch import launch_from_json
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space

from .conftest import TOML

Write = Callable[..., Path]
H200 = device("h200")


def space_of(file: KernelFile, **sizes: int) -> Space:
    return template(file).space(problem_type(file).of(sizes), H200)


def names(space: Space) -> list[str]:
    return [rule.name for rule in space.rules]


def test_the_space_satisfies_the_rules_and_the_device_limits(kernel_file: KernelFile) -> None:
    space = space_of(kernel_file, width=1000)
    parameters = kernel_file.parameters
    legal = set()
    for values in itertools.product(*(p.values for p in parameters)):
        block_x, tile, _, alpha, fast = values
        span = int(block_x) * int(tile)
        if span <= 1000 and int(block_x) <= 1024 and (fast or float(alpha) < 1) and 4 * span <= H200.shared_per_block:
            legal.add(values)
    assert space.count() == len(legal)
    assert {tuple(v for _, v in s.items) for s in space.sample(10**6, 0)} == legal
    assert space.valid.count() > space.count()
    assert names(space)[-1] == "fast or alpha < 1"


def test_every_refusal_has_its_reason(kernel_file: KernelFile) -> None:
    space = space_of(kernel_file, width=4096)
    base = {"block_x": 2048, "tile": 8, "order": "row", "alpha": "2.0", "fast": 0}
    assert {v.rule: v.reason for v in space.explain(base)} == {
        "span <= width": "a block must not be longer than a row (span = 16384, width = 4096)",
        "launch.block": "a block has 1 to 1024 threads, at most 64 along z "
        "(block_dim_x = 2048, block_dim_y = 1, block_dim_z = 1)",
        "fast or alpha < 1": "fast or alpha < 1 does not hold (fast = 0, alpha = 2.0)",
    }


def test_shared_memory_and_grid_limits(write: Write) -> None:
    file = read_file(write(TOML, ("4 * span", "span * span"), ('"height"]\nshared', '"height * 10000"]\nshared')))
    schedule = {"block_x": 256, "tile": 2, "order": "row", "alpha": "0.5", "fast": 0}
    reasons = {v.rule: v.reason for v in space_of(file, width=4096).explain(schedule)}
    assert reasons["launch.shared_bytes"].startswith("a block on h200 has at most 232448 bytes of shared memory")
    reasons = {v.rule: v.reason for v in space_of(file, width=4096, height=7).explain(schedule)}
    assert "launch.grid" in reasons


def test_a_rule_that_only_uses_sizes_limits_the_problem(write: Write) -> None:
    file = read_file(write(TOML, ('expr = "span <= width"', 'expr = "width % 4 == 0"')))
    kernel_template = template(file)
    assert kernel_template.why_not(problem_type(file).of({"width": 8}), H200) is None
    reason = kernel_template.why_not(problem_type(file).of({"width": 6}), H200)
    assert reason == "a block must not be longer than a row (width = 6)"
    assert "width % 4 == 0" not in names(space_of(file, width=8))


def test_an_attribute_that_only_uses_sizes_is_a_constant(write: Write) -> None:
    file = read_file(
        write(TOML, ("[defines]", 'rows = "height // 2"\n[defines]'), ("span <= width", "span <= width * rows"))
    )
    space = space_of(file, width=1000)
    assert "rows" not in [a.name for a in space.attributes]
    config = space.config(space.sample(1, 0)[0])
    assert file.values({"width": 1000, "height": 8}, config)["rows"] == 4


def test_schedules_with_undefined_attributes_are_illegal(write: Write) -> None:
    file = read_file(write(TOML, ("[1, 2, 4, 8]", "[0, 1, 2]"), ('"block_x * tile"', '"block_x // tile"')))
    space = space_of(file)
    assert "span is defined" in names(space)
    assert all(s["tile"] != 0 for s in space.sample(10**6, 0))
    (violation, *_) = space.explain({"block_x": 32, "tile": 0, "order": "row", "alpha": "0.5", "fast": 0})
    assert violation.reason == "span = block_x // tile has no value for block_x = 32, tile = 0"


def test_clusters(write: Write) -> None:
    file = read_file(write(TOML, ("shared_bytes", 'cluster = ["tile"]\nshared_bytes'), ("4 * span", "0")))
    kernel_template, problem = template(file), problem_type(file).of({"width": 4096})
    assert "clusters" in (kernel_template.why_not(problem, device("a100")) or "")
    for schedule in kernel_template.space(problem, H200).sample(20, 0):
        config = kernel_template.space(problem, H200).config(schedule)
        assert config.integer("grid_dim_x") % schedule.integer("tile") == 0


def test_a_cooperative_launch_is_no_larger_than_the_device(write: Write) -> None:
    file = read_file(write(TOML, ("shared_bytes", "cooperative = true\nshared_bytes")))
    space = template(file).space(problem_type(file).of({"width": 100_000, "height": 8}), H200)
    assert "launch.cooperative" in names(space)
    for schedule in space.sample(20, 0):
        kernel = lower(file, {"width": 100_000, "height": 8}, schedule.values)
        assert kernel.blocks * kernel.threads <= H200.sm_count * H200.max_threads_per_sm
    kernel = lower(file, {"width": 1000, "height": 8}, CONFIG)
    assert kernel.cooperative and launch_from_json(kernel.launch_json()).cooperative


def test_a_dependent_launch_requires_a_supporting_device(write: Write) -> None:
    file = read_file(write(TOML, ("shared_bytes", "dependent = true\nshared_bytes")))
    kernel_template, problem = template(file), problem_type(file).of({"width": 4096})
    assert "a100" in (kernel_template.why_not(problem, device("a100")) or "")
    assert kernel_template.why_not(problem, H200) is None
    kernel = lower(file, {"width": 1000, "height": 8}, CONFIG)
    assert kernel.dependent and not kernel.cooperative
    plain = lower(read_file(write(TOML)), {"width": 1000, "height": 8}, CONFIG)
    assert kernel.digest != plain.digest and "dependent" not in plain.launch_json()
    assert file.content != read_file(write(TOML)).content


def test_a_launch_is_not_both(write: Write) -> None:
    with pytest.raises(KernelFileError, match="either"):
        read_file(write(TOML, ("shared_bytes", "dependent = true\ncooperative = true\nshared_bytes")))


def test_another_kernels_problem_is_rejected(kernel_file: KernelFile, write: Write) -> None:
    other = read_file(write(TOML, ("[kernel]", '[kernel]\nname = "other"')))
    assert template(kernel_file).why_not(problem_type(other).of({}), H200) == "scale computes scale, not other"


CONFIG = {"block_x": 64, "tile": 2, "order": "row", "alpha": "0.5", "fast": 1}
SIZES = {"width": 1000, "height": 8}


@pytest.mark.parametrize(
    ("passing", "front"),
    [
        (
            "define",
            "#define block_x 64\n#define tile 2\n#define order row\n#define alpha 0.5\n#define fast 1\n"
            "#define span 128\n#define WIDTH 1000\n",
        ),
        (
            "constexpr",
            "constexpr int block_x = 64;\nconstexpr int tile = 2;\nconstexpr double alpha = 0.5;\n"
            "constexpr int fast = 1;\nconstexpr int span = 128;\n#define WIDTH 1000\n",
        ),
        (
            "struct",
            "struct Config {\n  static constexpr int block_x = 64;\n  static constexpr int tile = 2;\n"
            "  static constexpr double alpha = 0.5;\n  static constexpr int fast = 1;\n"
            "  static constexpr int span = 128;\n};\n#define WIDTH 1000\n",
        ),
    ],
)
def test_parameters_precede_the_users_text(write: Write, passing: str, front: str) -> None:
    toml = TOML.replace("[kernel]", f'[kernel]\nparameters_as = "{passing}"')
    config: dict[str, Any] = dict(CONFIG)
    if passing != "define":
        toml = toml.replace('order = ["row", "column"]\n', "")
        config.pop("order")
    file = read_file(write(toml))
    values = file.values(SIZES, config)
    assert source_of(file, values) == front + '#line 1 "scale.cu"\n' + file.source
    assert entry_of(file.entry, values) == "scale"


def test_a_template_gets_its_arguments(write: Write) -> None:
    source = "template <typename T, int N, int M> __global__ void scale(T* out) {}"
    entry = ('entry = "scale"', 'entry = "ns::scale<float, tile, -span, width>"')
    file = read_file(write(TOML, entry, source=source))
    values = file.values(SIZES, CONFIG)
    assert entry_of(file.entry, values) == "ns::scale<float, 2, -128, 1000>"
    assert source_of(file, values) == f'#define WIDTH 1000\n#line 1 "scale.cu"\n{source}'


def test_negative_and_large_numbers_as_macros(write: Write) -> None:
    file = read_file(write(TOML, ('WIDTH = "width"', 'LOW = "-width"\nBIG = "2 ** 40"\nHALF = 0.5\nNAME = "order"')))
    text = source_of(file, file.values(SIZES, CONFIG))
    assert "#define LOW (-1000)\n#define BIG 1099511627776ll\n#define HALF 0.5\n#define NAME row\n" in text


@pytest.mark.parametrize(
    ("factor", "front", "pragma"), [(4, "constexpr int loop_unroll_factor_x = 4;\n", True), (0, "", False)]
)
def test_kernel_tuners_unroll_factors(write: Write, factor: int, front: str, pragma: bool) -> None:
    source = "__global__ void scale() {\n  #pragma unroll loop_unroll_factor_x\n  for (;;) {}\n}\n"
    file = read_file(
        write(
            TOML.replace("tile", "loop_unroll_factor_x")
            .replace("[1, 2, 4, 8]", "[0, 2, 4]")
            .replace('"block_x * loop_unroll_factor_x"', '"block_x"'),
            source=source,
        )
    )
    text = source_of(file, file.values(SIZES, {**CONFIG, "loop_unroll_factor_x": factor}))
    assert (front in text) and "#define loop_unroll" not in text
    assert ("#pragma unroll" in text) == pragma
    assert text.count("\n", text.index("#line")) == source.count("\n") + 1


def test_the_version_follows_the_content(kernel_file: KernelFile, write: Write) -> None:
    kernel_template = template(kernel_file)
    assert kernel_template is template(read_file(write()))
    assert kernel_template.version == template(read_file(write())).version
    assert kernel_template.version != template(read_file(write(TOML, ("4 * span", "8 * span")))).version
    assert kernel_template.version != template(read_file(write(source="__global__ void scale() { }"))).version


def test_counts_equal_the_costs_of_the_file(kernel_file: KernelFile, write: Write) -> None:
    kernel_template, problem = template(kernel_file), problem_type(kernel_file).of({"width": 1024})
    schedule = kernel_template.space(problem, H200).sample(1, 0)[0]
    config = kernel_template.space(problem, H200).config(schedule)
    assert kernel_template.counts is not None
    counts = kernel_template.counts(problem, config, H200)
    assert counts.blocks == config.integer("grid_dim_x") * 8
    assert counts.flops * counts.blocks == pytest.approx(1024 * 8)
    assert counts.dram_bytes == 8 * 1024 * 8
    assert (counts.load_bytes + counts.store_bytes) * counts.blocks == pytest.approx(counts.dram_bytes)
    cost = TOML[TOML.index("[cost]") : TOML.index("[metrics]")]
    bare = read_file(write(TOML.replace(cost, "").replace('relative = "flops / 1e9"', "")))
    assert template(bare).counts is None


def test_metrics(kernel_file: KernelFile) -> None:
    metrics = kernel_file.metric_values(SIZES, CONFIG, 1e-3)
    assert metrics == pytest.approx({"GB/s": 0.064, "GFLOP/s": 0.008, "elements/s": 8e6, "relative": 8e-6})


def test_a_smaller_problem_for_the_emulator(kernel_file: KernelFile, write: Write) -> None:
    file = read_file(write(TOML, ("[cost]", '[proxy]\nwidth = "min(width, span + width % span)"\nheight = 1\n[cost]')))
    kernel_template, problem = template(file), problem_type(file).of({"width": 1000})
    schedule = Schedule("scale", tuple(CONFIG.items()))
    assert kernel_template.proxy is not None
    assert kernel_template.proxy(problem, schedule) == problem_type(file).of({"width": 128 + 1000 % 128, "height": 1})
