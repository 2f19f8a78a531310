"""For a malformed layout attribute, the message names the position of the error and the expected token."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.layouts.lowering_config import Basis, LoweringConfig
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.text import LayoutSyntaxError, TextReader, integer_tuple
from search_spaces.layouts.wg_map import WgMap

WG_MAP = WgMap((2, 2), (32, 128), order=(0, 1))
LAYOUT = NestedLayout((2,), (1,), (1,), (32,), (4,), (1,), (1,))
CONFIG = LoweringConfig(
    workgroup=(2, 0),
    thread=(0, 8),
    lane_basis=Basis.identity((1, 64)),
    subgroup_basis=Basis.identity((1, 1)),
    partial_reduction=(0, 512),
).expand()


class TestPositions:
    @pytest.mark.parametrize(
        ("text", "position", "expected"),
        [
            ("", 0, "'#xetile.wg_map' or '#wg_map' or '#xetile.tile_attr' or '#tile_attr'"),
            ("#wg_mapping<>", 0, "'#xetile.wg_map' or '#wg_map' or '#xetile.tile_attr' or '#tile_attr'"),
            ("#wg_map[2, 2]", 7, "'<'"),
            ("#wg_map<>", 8, "one of the fields sg_layout, sg_data"),
            ("#wg_map<sg_lay = [2, 2]>", 8, "one of the fields sg_layout, sg_data"),
            ("#wg_map<sg_layout [2, 2]>", 18, "'='"),
            ("#wg_map<sg_layout = 2>", 20, "'['"),
            ("#wg_map<sg_layout = [2, x]>", 24, "an integer"),
            ("#wg_map<sg_layout = [2 2]>", 23, "',' or ']'"),
            ("#wg_map<sg_layout = [2, 2]>", 26, "','"),
            ("#wg_map<sg_layout = [2, 2], sg_layout = [2, 2]>", 28, "the field sg_data"),
            ("#wg_map<sg_layout = [2, 2], sg_data = [8, 8]", 44, "'>'"),
            ("#wg_map<sg_layout = [2, 2], sg_data = [8, 8]> x", 46, "the end of the text"),
            ("#tile_attr<>", 11, "one of the fields wg, order"),
            ("#tile_attr<wg = #a>", 16, "'#xetile.wg_map', '#wg_map' or the alias of a map"),
            (
                "#a = #wg_map<sg_layout = [2, 2], sg_data = [8, 8]> #a = #wg_map",
                51,
                "a new name, because #a is already defined",
            ),
            ("#a = // nothing", 15, "'#xetile.wg_map' or '#wg_map' or '#xetile.tile_attr' or '#tile_attr'"),
        ],
    )
    def test_wg_map(self, text, position, expected):
        with pytest.raises(LayoutSyntaxError) as caught:
            WgMap.parse(text)
        assert (caught.value.position, caught.value.expected) == (position, expected)
        assert str(caught.value).startswith(f"at position {position}: expected {expected}, found ")

    @pytest.mark.parametrize(
        ("text", "position", "expected"),
        [
            ("#iree_gpu.lowering_config<[]>", 26, "'{'"),
            ("#iree_gpu.lowering_config<{workgroup = [1], thread = [1]>", 56, "',' or '}'"),
            ("#iree_gpu.lowering_config<{lane_basis = [1, 2]}>", 41, "'['"),
            ("#iree_gpu.lowering_config<{lane_basis = [[1], [0], [0]]}>", 49, "']'"),
            (
                "#iree_gpu.lowering_config<{reduction = [1]}>",
                27,
                "one of the fields workgroup, thread, lane_basis, subgroup_basis, partial_reduction, expand_dims, "
                "expand_iteration_space",
            ),
            (str(CONFIG).replace("}>", "}"), len(str(CONFIG)) - 1, "'>'"),
            (str(CONFIG).replace("}>", ", a = [1]}>"), len(str(CONFIG)), "the field expand_iteration_space"),
        ],
    )
    def test_lowering_config(self, text, position, expected):
        with pytest.raises(LayoutSyntaxError) as caught:
            LoweringConfig.parse(text)
        assert (caught.value.position, caught.value.expected) == (position, expected)

    def test_nested_layout(self):
        with pytest.raises(LayoutSyntaxError) as caught:
            NestedLayout.parse("NestedLayout : <subgroup_tile = [2, 1")
        assert (caught.value.position, caught.value.expected) == (37, "',' or ']'")
        assert str(caught.value) == "at position 37: expected ',' or ']', found the end of the text"

    @pytest.mark.parametrize("value", [WG_MAP, LAYOUT, CONFIG], ids=["wg_map", "nested_layout", "lowering_config"])
    @given(data=st.data())
    def test_a_truncated_text_fails_at_its_end(self, value, data):
        text = str(value)
        cut = data.draw(st.integers(0, len(text) - 1))
        with pytest.raises(LayoutSyntaxError) as caught:
            type(value).parse(text[:cut])
        # a truncated word is reported at its start
        assert caught.value.position <= cut
        assert set(text[caught.value.position : cut]) <= set("abcdefghijklmnopqrstuvwxyz_#.NL")

    @pytest.mark.parametrize("value", [WG_MAP, LAYOUT, CONFIG], ids=["wg_map", "nested_layout", "lowering_config"])
    @given(data=st.data())
    def test_any_change_is_read_or_rejected(self, value, data):
        """Parsing raises only LayoutSyntaxError. Printing a value and parsing the text gives the same value."""
        text = str(value)
        at = data.draw(st.integers(0, len(text) - 1))
        changed = text[:at] + data.draw(st.text(" ,=<>[]{}#-0123456789abx", max_size=2)) + text[at + 1 :]
        try:
            read = type(value).parse(changed)
        except ValueError as error:
            assert not isinstance(error, UnicodeError)
            return
        assert type(value).parse(str(read)) == read


class TestReader:
    def test_a_token_matches_whole_words(self):
        reader = TextReader("orders order")
        assert not reader.accept("order")
        assert reader.accept("orders")
        assert reader.accept("order")
        reader.end()

    def test_lists_of_integers_are_read(self):
        assert TextReader("[ 1,-2 ,30 ]").integers() == (1, -2, 30)
        assert TextReader("[]").integers() == ()
        for text, message in (("[1,]", "position 3: expected an integer"), ("[" + 99 * "9", "expected ',' or ']'")):
            with pytest.raises(LayoutSyntaxError, match=message):
                TextReader(text).integers()


class TestAliases:
    def test_every_attribute_accepts_a_name_and_a_comment(self):
        for value in (WG_MAP, LAYOUT, CONFIG):
            assert type(value).parse(f"#name.of_it = {value}  // and a comment") == value

    def test_a_tile_attr_refers_to_a_map(self):
        """Use the text of the RFC's introduction of wg_map verbatim."""
        text = """
   #wg_map_a = #xetile.wg_map<sg_layout = [2, 2], sg_data = [32, 128]>
   #tile_attr = #xetile.tile_attr<wg = #wg_map_a, order = [0, 1]>
"""
        assert WgMap.parse(text) == WG_MAP
        assert WgMap.parse(text.splitlines()[1]) == WgMap((2, 2), (32, 128))

    def test_an_order_without_a_tile_is_one_subgroup(self):
        tile = WgMap.parse("  #tile_attr = #xetile.tile_attr<order = [0, 1]>")
        assert tile.order == (0, 1)
        for shape in ((64, 32), (3, 5)):
            assert (tile.owners(shape) == 0).all()
            assert (tile.distribute(np.ones(shape)).shape[0], tile.wraps(shape)) == (1, (False, False))
        assert WgMap.parse(str(tile)) == tile


@pytest.mark.parametrize(
    ("values", "message"),
    [(3, "field is 3: give a sequence"), ([1, None], r"field\[1\] is None"), ([2, 0], r"field\[1\] is 0: it must be")],
)
def test_integer_tuple(values, message):
    with pytest.raises(ValueError, match=message):
        integer_tuple("field", values, 1)
