"""Kernel templates are validated, can be combined in sets, and have versions that are derived from their content."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

from search_spaces.catalogue import BUILT_IN_TEMPLATES, template
from search_spaces.hardware.devices import device
from search_spaces.launches.headers import include_dir, package_headers
from search_spaces.operators.copy import Copy
from search_spaces.operators.matmul import Matmul
from search_spaces.operators.row_reduction import Softmax
from search_spaces.operators.transpose import Transpose
from search_spaces.spaces.schedule import Schedule
from search_spaces.templates import template as template_module
from search_spaces.templates.copy.template import COPY
from search_spaces.templates.device_source import DeviceSource
from search_spaces.templates.matmul.template import MATMUL
from search_spaces.templates.row_reduction.template import ROW_REDUCTION
from search_spaces.templates.template import KernelTemplate, TemplateSet
from search_spaces.templates.transpose.template import TRANSPOSE

H200 = device("h200")
PROBLEM = Copy(64, 64)
SCHEDULE = COPY.space(PROBLEM, H200).sample(1, seed=1)[0]


def test_configs_and_kernels_require_valid_schedules() -> None:
    config = COPY.config(PROBLEM, SCHEDULE, H200)
    assert config == COPY.space(PROBLEM, H200).config(SCHEDULE)
    assert COPY.kernel(PROBLEM, SCHEDULE, H200) == COPY.lower(PROBLEM, config, H200)
    transposes = TRANSPOSE.space(Transpose(64, 64), H200).sample(1, seed=1)
    space = COPY.space(PROBLEM, H200)
    wasteful = next(s for s in space.valid.sample(200, seed=1) if space.explain(s))
    assert COPY.config(PROBLEM, wasteful, H200).schedule == wasteful, "a schedule that pruning rejects is still valid"
    for make in (COPY.config, COPY.kernel):
        with pytest.raises(ValueError, match="this is a schedule of the template transpose"):
            make(PROBLEM, transposes[0], H200)
        with pytest.raises(ValueError, match=r"^copy computes copy, not transpose$"):
            make(Transpose(64, 64), SCHEDULE, H200)


def test_why_not_checks_the_operator_before_support() -> None:
    checked: list[Copy] = []

    def supports(problem: Copy, target: object) -> str | None:
        checked.append(problem)
        return "its rows are odd" if problem.rows % 2 else None

    picky = replace(COPY, name="picky", supports=supports)
    assert picky.why_not(Matmul(4, 4, 4), H200) == "picky computes copy, not matmul"
    assert checked == [], "`supports` must only be called with problems of its operator"
    assert picky.why_not(Copy(4, 4), H200) is None
    assert picky.why_not(Copy(3, 4), H200) == "its rows are odd"
    with pytest.raises(ValueError, match=r"^its rows are odd$"):
        picky.kernel(Copy(3, 4), SCHEDULE, H200)
    assert ROW_REDUCTION.why_not(PROBLEM, H200) == (
        "row_reduction computes reduce and softmax and rmsnorm and layernorm, not copy"
    )


def test_a_set_hands_out_the_template_of_a_schedule() -> None:
    both = TemplateSet([COPY, MATMUL])
    assert list(both) == [COPY, MATMUL] and len(both) == 2
    assert both.of(SCHEDULE) is COPY
    assert both.kernel(PROBLEM, SCHEDULE, H200) == COPY.kernel(PROBLEM, SCHEDULE, H200)
    with pytest.raises(ValueError, match=r"^unknown kernel template 'softmax': use one of copy, matmul$"):
        both.of(Schedule("softmax", SCHEDULE.items))
    with pytest.raises(ValueError, match="copy computes copy, not matmul"):
        both.kernel(Matmul(4, 4, 4), SCHEDULE, H200)
    alone = TemplateSet([COPY]).space(PROBLEM, H200)
    assert {name: member.fingerprint for name, member in alone.members.items()} == {
        "copy": COPY.space(PROBLEM, H200).fingerprint
    }


def test_versions_are_digests_that_tell_templates_apart() -> None:
    versions = {t.load().version for t in BUILT_IN_TEMPLATES}
    assert len(versions) == len(BUILT_IN_TEMPLATES)
    assert all(len(v) == 64 and int(v, 16) >= 0 for v in versions)
    assert replace(MATMUL).version == MATMUL.version
    assert replace(MATMUL, content="[parameters]").version != MATMUL.version
    assert replace(MATMUL, source=DeviceSource(MATMUL.source.header, "ours::matmul")).version != MATMUL.version
    assert replace(MATMUL, counts=COPY.counts).version != MATMUL.version


PACKAGE = {
    "__init__.py": "",
    "template.py": """
from search_spaces.templates.device_source import DeviceSource
from search_spaces.templates.template import KernelTemplate
from toy_kernels.lowering import lower
from toy_kernels.space import space

TOY = KernelTemplate("toy", "a toy", ("softmax",), DeviceSource("toy/toy.cuh", "toy::toy", "toy_kernels"), space, lower)
""",
    "constants.py": "TILES = (1, 2, 4)\n",
    "space.py": """
from search_spaces.spaces.parameters import ordinal
from search_spaces.spaces.space import Space
from toy_kernels.constants import TILES

def space(problem, device):
    return Space("toy", [ordinal("tile", TILES)])
""",
    "lowering.py": """
def lower(problem, config, device):
    raise NotImplementedError
""",
    "include/toy/toy.cuh": "#pragma once\n",
}


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., KernelTemplate]]:
    """Yield a function that imports the template of PACKAGE, with some files changed, from a new folder."""

    def forget() -> None:
        for name in [m for m in sys.modules if m.partition(".")[0] == "toy_kernels"]:
            del sys.modules[name]
        include_dir.cache_clear()
        package_headers.cache_clear()

    def imported(folder: str = "here", **changes: str) -> KernelTemplate:
        root = tmp_path / folder
        named = {name.replace("__", "/").replace("_dot_", "."): text for name, text in changes.items()}
        for name, text in (PACKAGE | named).items():
            path = root / "toy_kernels" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        forget()
        with monkeypatch.context() as patch:
            patch.syspath_prepend(root)
            toy: KernelTemplate = import_module("toy_kernels.template").TOY
            assert toy.version and toy.source.headers
        return toy

    yield imported
    forget()


@pytest.mark.parametrize("package", ["language", "inference", "planning", "schedules", "lowering"])
@pytest.mark.parametrize("name", ["grouped_matmul", "decode_attention"])
def test_versions_of_tile_programs_cover_their_compiler(
    package: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the code of any of these packages changes, stored trials of tile programs become stale."""
    kernel_template = template(name)
    before, read = replace(kernel_template).version, template_module._package

    def edited(of: str) -> Iterator[tuple[str, str]]:
        for module, text in read(of):
            yield module, f"{text}# edited\n" if of == f"search_spaces.programs.{package}" else text

    monkeypatch.setattr(template_module, "_package", edited)
    assert replace(kernel_template).version != before


def test_a_version_depends_on_content_and_not_on_the_path(load: Callable[..., KernelTemplate]) -> None:
    here = load("here")
    assert here.space(Softmax(4, 4), H200).count() == 3
    assert load("there/deeper").version == here.version
    changed = {
        "a constant": load("a", constants_dot_py="TILES = (1, 2, 4, 8)\n"),
        "the lowering": load("b", lowering_dot_py=PACKAGE["lowering.py"] + "# another\n"),
        "a header": load("c", include__toy__toy_dot_cuh="#pragma once\nint x;\n"),
        "another header": load("d", include__toy__more_dot_cuh="#pragma once\n"),
        "a module more": load("e", more_dot_py=""),
    }
    versions = {change: template.version for change, template in changed.items()}
    assert here.version not in versions.values(), versions
    assert len(set(versions.values())) == len(versions)
    assert load("f", notes_dot_txt="what is not code").version == here.version


def test_a_version_follows_from_the_shared_rules_that_a_template_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    read = template_module._package

    def changed(name: str) -> Iterator[tuple[str, str]]:
        for module, text in read(name):
            yield module, text + ("# another\n" if module.endswith("common.raster") else "")

    before = {t.name: t.version for t in (replace(COPY), replace(MATMUL))}
    monkeypatch.setattr(template_module, "_package", changed)
    after = {t.name: t.version for t in (replace(COPY), replace(MATMUL))}
    assert after["copy"] == before["copy"], "copy has no tile order, so its version must not change"
    assert after["matmul"] != before["matmul"]


def test_a_template_that_was_typed_in_has_a_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a notebook or a shell, the module that defines the functions has no file."""
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)

    def space(*_: object) -> object:
        raise AssertionError("nobody asks for it")

    space.__module__ = "__main__"
    typed = replace(COPY, space=space)  # type: ignore[arg-type]
    assert len(typed.version) == 64
    space.__module__ = "there_is_no_such_module"
    assert len(replace(COPY, space=space).version) == 64  # type: ignore[arg-type]
