"""Installed packages are found by their metadata folders, with the same result as importlib.metadata."""

import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

from search_spaces.installed import entry_points, metadata_folder

GROUP = "autosched.tests"
TEXT = f"[{GROUP}]\nsmall = package:templates\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a package and return its metadata folder."""
    folder = tmp_path / "some_package-1.2.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: some-package\nVersion: 1.2\n")
    (folder / "entry_points.txt").write_text(TEXT)
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder


def test_versions_agree_with_importlib_metadata() -> None:
    for name in ("numpy", "typer", "pytest-xdist", "Jinja2"):
        folder = metadata_folder(name)
        assert folder is not None and folder[0].is_dir() and folder[1] == metadata.version(name), name
    assert metadata_folder("no-such-package") is None


def test_the_first_package_on_the_path_counts(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newer = tmp_path / "newer" / "some_package-2.0.dist-info"
    newer.mkdir(parents=True)
    assert metadata_folder("some-package") == (package, "1.2")
    monkeypatch.syspath_prepend(str(newer.parent))
    assert metadata_folder("some-package") == (newer, "2.0")


def test_entry_points_agree_with_importlib_metadata(package: Path) -> None:
    (point,) = entry_points(group=GROUP)
    assert (point.name, point.value) == ("small", "package:templates")
    assert tuple(metadata.entry_points(group="console_scripts")) == entry_points(group="console_scripts")
    assert entry_points(group="autosched.none") == ()


@pytest.mark.parametrize("name", ["some_package-1.2.DIST-INFO", "some_package.egg-info", "EGG-INFO"])
def test_other_folders_of_metadata(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "some_package-1.2-py3.12.egg" / name
    folder.mkdir(parents=True)
    for file in ("METADATA", "PKG-INFO"):
        (folder / file).write_text("Metadata-Version: 2.1\nName: some-package\nVersion: 1.2\n")
    (folder / "entry_points.txt").write_text(TEXT)
    monkeypatch.syspath_prepend(str(folder.parent))
    assert [point.name for point in entry_points(group=GROUP)] == ["small"]


def test_entry_points_of_zip_files_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = tmp_path / "zipped-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        file.writestr("zipped-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: zipped\nVersion: 1.0\n")
        file.writestr("zipped-1.0.dist-info/entry_points.txt", TEXT)
    monkeypatch.syspath_prepend(str(wheel))
    assert [point.name for point in entry_points(group=GROUP)] == ["small"]


def test_entry_points_of_custom_finders_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "found-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: found\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(TEXT)

    class Finder(metadata.DistributionFinder):
        def find_spec(self, *_: object) -> None:
            return None

        def find_distributions(self, context: object = None) -> list[metadata.PathDistribution]:
            return [metadata.PathDistribution(folder)]

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    assert [point.name for point in entry_points(group=GROUP)] == ["small"]
