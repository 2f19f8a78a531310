"""The texts of the .svg pictures agree with the layouts that they show."""

import builtins
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from needs import needs_matplotlib

from autosched.reporting.pictures import draw_bank_map, draw_distribution
from search_spaces.hardware.costs.bank_conflicts import banks, ldmatrix_wavefronts
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.shared_layout import SharedLayout
from search_spaces.layouts.wg_map import WgMap

pytestmark = needs_matplotlib

EXAMPLE = NestedLayout((2, 1), (2, 4), (1, 1), (16, 4), (1, 4), (1, 0), (1, 16))


def texts(path):
    """Return the labels of an .svg file. The lines of a label are joined by a space."""
    return [
        re.sub(r"\s+", " ", " ".join(t.strip() for t in element.itertext())).strip()
        for element in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")
    ]


class TestDistribution:
    def test_nested_layout(self, tmp_path):
        labels = texts(draw_distribution(EXAMPLE, tmp_path / "tile.svg", subgroups=4))
        assert {"subgroups 0, 2", "subgroups 1, 3", "64 x 64, batches of 16 x 16"} <= set(labels)
        assert {f"t{t}" for t in range(64)} <= set(labels)
        assert labels.count("r0-3") == 64
        assert {"thread 0", "thread 32"} <= set(labels), "the legend"

    def test_wg_map(self, tmp_path):
        labels = texts(draw_distribution(WgMap((2, 2), (32, 128)), tmp_path / "map.svg", shape=(128, 128)))
        assert [labels.count(t) for t in ("subgroups 0, 1", "subgroups 2, 3", "round 0", "round 1")] == [3, 3, 2, 2]

    def test_one_dimension_and_copies(self, tmp_path):
        scale = NestedLayout((2,), (2,), (1,), (8,), (4,), (1,), (4,))
        labels = texts(draw_distribution(scale, tmp_path / "scale.svg"))
        assert {"t0-3", "t28-31", "subgroup 0", "1 x 128, batches of 1 x 32"} <= set(labels)

    def test_the_same_layout_gives_the_same_file(self, tmp_path):
        one, two = (draw_distribution(EXAMPLE, tmp_path / name).read_bytes() for name in ("a.svg", "b.svg"))
        assert one == two

    def test_png(self, tmp_path):
        assert draw_distribution(EXAMPLE, tmp_path / "tile.png").read_bytes().startswith(b"\x89PNG")


class TestBankMap:
    def test_banks_and_conflicts(self, tmp_path):
        layout = SharedLayout.parse("identity", (16, 32))
        labels = texts(draw_bank_map(layout, tmp_path / "banks.svg", element_bytes=2))
        words = banks(layout, 2)[:, ::2]
        axes = [str(t) for t in (*range(0, 33, 4), *range(0, 17, 2))] * 2
        for bank in range(32):
            assert labels.count(str(bank)) == (words == bank).sum() + axes.count(str(bank))
        rows = layout.offsets()[:, ::8].reshape(2, 8, 4).transpose(0, 2, 1) * 2
        assert (ldmatrix_wavefronts(rows) == 4).all()
        assert labels.count("4-way") == 8
        assert "conflicts cost 24 of 32 cycles" in labels
        assert {"bank 0", "bank 8", "bank 24", "4-way conflict"} <= set(labels) and "no conflict" not in labels

    @pytest.mark.parametrize(
        ("text", "shape", "access"),
        [
            ("pad(8,1)", (16, 32), "8 x 8 elements, 16 bytes a lane"),
            ("transpose+pad(8,1)", (32, 16), "8 x 8 elements, 16 bytes a lane"),
            ("xor", (32, 32), "32 x 1 elements, 2 bytes a lane"),
        ],
    )
    def test_default_access_follows_the_layout(self, tmp_path, text, shape, access):
        labels = texts(draw_bank_map(SharedLayout.parse(text, shape), tmp_path / "banks.svg", element_bytes=2))
        assert {"no conflicts", "no conflict"} <= set(labels) and not any(
            t.endswith(("cycle", "cycles")) for t in labels
        )
        assert any(t.startswith(f"warp accesses of {access}") and "cycle" in t for t in labels)

    @pytest.mark.parametrize(("access", "cycles"), [((32, 1), 32), ((8, 4), 8)])
    def test_the_bank_map_shows_the_cycles_of_an_access(self, tmp_path, access, cycles):
        layout = SharedLayout.parse("identity", (32, 32))
        labels = texts(draw_bank_map(layout, tmp_path / "banks.svg", 4, access=access, access_bytes=4))
        words = layout.offsets().reshape(32 // access[0], access[0], 32 // access[1], access[1]).transpose(0, 2, 1, 3)
        per_bank = np.apply_along_axis(np.bincount, -1, words.reshape(-1, 32) % 32, minlength=32)
        assert (per_bank.max(axis=-1) == cycles).all()
        shown = [t for t in labels if t.startswith(f"{cycles} cycle")]
        assert len(shown) == len(per_bank)

    def test_degree_is_relative_to_the_phases(self, tmp_path):
        """32 lanes with 16 bytes each need four phases, so the degree of conflicts is relative to four."""
        layouts = {text: SharedLayout.parse(text, (32, 32)) for text in ("identity", "pad(8,1)")}
        labels = {
            text: texts(draw_bank_map(layout, tmp_path / "banks.svg", 2, access=(32, 8)))
            for text, layout in layouts.items()
        }
        assert (labels["identity"].count("16 cycles"), labels["identity"].count("4-way")) == (4, 4)
        once = [t for t in labels["pad(8,1)"] if "4 cycles" in t]
        assert (len(once), labels["pad(8,1)"].count("4-way")) == (1, 0)


class TestRefusals:
    def test_other_formats(self, tmp_path):
        with pytest.raises(ValueError, match=r"cannot draw '.*tile.gif': use a file name that ends in .svg or .png"):
            draw_distribution(EXAMPLE, tmp_path / "tile.gif")

    def test_arguments(self, tmp_path):
        path = tmp_path / "x.svg"
        layout = SharedLayout.parse("identity", (32, 32))
        for size in (0, 3, -2):
            with pytest.raises(ValueError, match=f"element_bytes must be 1, 2, 4, 8 or 16, not {size}"):
                draw_bank_map(layout, path, size)
        with pytest.raises(ValueError, match="shape of the tile"):
            draw_distribution(WgMap((2, 2), (32, 128)), path)
        with pytest.raises(ValueError, match="the layout has rank 3"):
            draw_distribution(EXAMPLE.append((1,), (2,), (1,), (1,), (1,), (0,), (0,)), path)
        with pytest.raises(ValueError, match=r"access \(5, 4\) must divide the tile of 32 x 32"):
            draw_bank_map(layout, path, 4, access=(5, 4))
        with pytest.raises(ValueError, match="needs 256 lanes of 16 bytes"):
            draw_bank_map(layout, path, 4, access=(32, 32))
        with pytest.raises(ValueError, match="only 4 bytes of a line"):
            draw_bank_map(SharedLayout.parse("xor", (32, 32)), path, 4, access_bytes=16)
        with pytest.raises(ValueError, match="the picture would have 65536 cells: draw a tile with at most 16384"):
            draw_bank_map(SharedLayout.parse("identity", (256, 256)), path, 4)
        assert not path.exists()

    def test_without_matplotlib(self, tmp_path, monkeypatch):
        plain = builtins.__import__

        def without(name, *arguments, **keywords):
            if name.startswith("matplotlib"):
                raise ImportError(name)
            return plain(name, *arguments, **keywords)

        monkeypatch.setattr(builtins, "__import__", without)
        with pytest.raises(ImportError, match=r"pip install 'autosched\[pictures\]'"):
            draw_distribution(EXAMPLE, tmp_path / "tile.svg")
