"""The metadata of the package.

Links in the description are valid, the requirements can be installed, and build requirements are pinned.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement

from autosched.version import VERSION

REPOSITORY = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Message:
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy2(REPOSITORY / name, source / name)
    (source / "autosched").mkdir()
    shutil.copy2(REPOSITORY / "autosched" / "version.py", source / "autosched")
    script = "from setuptools import build_meta; print(build_meta.prepare_metadata_for_build_wheel('.'))"
    done = subprocess.run([sys.executable, "-c", script], cwd=source, capture_output=True, text=True, check=True)
    return Parser().parsestr((source / done.stdout.split()[-1] / "METADATA").read_text("utf-8"))


def test_links_of_the_description_are_absolute(metadata: Message) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", str(metadata.get_payload()))
    assert len(links) > 20
    assert not [link for link in links if not link.startswith("https://")]
    own = "https://github.com/autosched/autosched/blob/v" + metadata["Version"] + "/"
    for path in (link.removeprefix(own) for link in links if link.startswith(own)):
        assert (REPOSITORY / path.partition("#")[0]).exists(), path


@pytest.mark.parametrize(
    ("system", "machine", "expected"),
    [
        ("linux", "x86_64", "xgboost-cpu"),
        ("win32", "AMD64", "xgboost-cpu"),
        ("linux", "aarch64", "xgboost"),
        ("darwin", "arm64", "xgboost"),
        ("darwin", "x86_64", "xgboost"),
    ],
)
def test_one_xgboost_for_each_machine(metadata: Message, system: str, machine: str, expected: str) -> None:
    environment = {"sys_platform": system, "platform_machine": machine, "extra": ""}
    requirements = [Requirement(text) for text in metadata.get_all("Requires-Dist", [])]
    names = {r.name for r in requirements if r.marker is None or r.marker.evaluate(environment)}
    assert {name for name in names if name.startswith("xgboost")} == {expected}


def test_the_metadata_has_author_licence_and_urls(metadata: Message) -> None:
    assert metadata["Author"] == "The autosched developers" and metadata["License-Expression"] == "Apache-2.0"
    urls = dict(text.split(", ") for text in metadata.get_all("Project-URL", []))
    assert {"Repository", "Documentation", "Changelog", "Issues"} <= urls.keys()


def test_actions_are_pinned_by_hash() -> None:
    workflows = [*(REPOSITORY / ".github" / "workflows").glob("*.yml"), *(REPOSITORY / "examples").rglob("*.yml")]
    actions = [a for file in workflows for a in re.findall(r"uses: ([\w-]+/\S+)(.*)", file.read_text("utf-8"))]
    assert len(actions) > 10
    for action, comment in actions:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action) and re.fullmatch(r" # v\d+\.\d+\.\d+", comment)


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((REPOSITORY / "CITATION.cff").read_text("utf-8"))
    assert citation["version"] == VERSION and citation["authors"] == [{"name": "The autosched developers"}]
