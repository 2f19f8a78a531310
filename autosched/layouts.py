"""Layouts of shared memory, and distributions of tiles over threads.

>>> from autosched.layouts import NestedLayout, SharedLayout
"""

from search_spaces.hardware.costs.bank_conflicts import fragment_traffic
from search_spaces.hardware.costs.copy_rankings import copy_choices, layout_choices
from search_spaces.hardware.costs.data_movement import Region, copy_plan
from search_spaces.hardware.intrinsics import intrinsic
from search_spaces.layouts.conversion import Exchange, to_layout, to_simd, to_simt
from search_spaces.layouts.lowering_config import Basis, LoweringConfig
from search_spaces.layouts.nested_layout import NestedLayout
from search_spaces.layouts.shared_layout import SharedLayout
from search_spaces.layouts.wg_map import WgMap
from search_spaces.layouts.wg_map_consistency import check_mma, converts_in_place, transposes_in_place

__all__ = [
    "Basis",
    "Exchange",
    "LoweringConfig",
    "NestedLayout",
    "Region",
    "SharedLayout",
    "WgMap",
    "check_mma",
    "converts_in_place",
    "copy_choices",
    "copy_plan",
    "fragment_traffic",
    "intrinsic",
    "layout_choices",
    "to_layout",
    "to_simd",
    "to_simt",
    "transposes_in_place",
]
