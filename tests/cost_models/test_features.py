"""Features match their names, can be combined across problems, and do not depend on the other schedules of a batch."""

from dataclasses import replace

import numpy as np
import pytest

from cost_models.analytic import predict
from cost_models.features import (
    FEATURES,
    FeatureMismatch,
    FeatureTable,
    align,
    common_names,
    features,
)
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.parameters import ordinal
from search_spaces.spaces.rules import Attribute
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space
from search_spaces.templates.matmul.counts import counts
from search_spaces.templates.matmul.template import MATMUL
from search_spaces.templates.template import TemplateSet

H200 = device("h200")
TEMPLATES = TemplateSet([MATMUL])
PROBLEM = Matmul(m=4096, n=4096, k=4096, a="f16", b="f16", out="f16")
BATCHED = Matmul(m=512, n=512, k=256, batch=3, a="f16", b="f16", out="f16", epilogue="bias")
GOOD = Schedule(
    "matmul",
    (
        *(("tile_m", 128), ("tile_n", 128), ("tile_k", 64), ("intrinsic", "mma_m16n8k16_f16")),
        *(("subgroups_m", 2), ("subgroups_n", 4), ("sg_data_m", 64), ("sg_data_n", 32)),
        *(("layout_a", "swizzle(3,3,3)"), ("layout_b", "pad(8,1)"), ("copy_a", "cp.async"), ("copy_b", "cp.async")),
        *(("vector_a", 8), ("vector_b", 8), ("copy_columns_a", 8), ("copy_columns_b", 16)),
        *(("stages", 3), ("unroll", 2), ("fragment_buffers", 1), ("epilogue", "registers"), ("min_blocks", 1)),
        *(("split_k", 1), ("raster", "grouped_8"), ("batch_mapping", "outer")),
    ),
)
SCHEDULES = (GOOD, GOOD.replace(stages=2), GOOD.replace(layout_a="pad(8,1)", raster="row"), GOOD.replace(split_k=2))


def test_every_feature_is_documented_once() -> None:
    names = [f.name for f in FEATURES]
    assert len(set(names)) == len(names)
    assert all(f.doc and f.name.split(".")[0] in ("problem", "device", "work", "model") for f in FEATURES)


def test_the_columns_of_a_table_match_their_names() -> None:
    table = features(TEMPLATES, PROBLEM, SCHEDULES, H200)
    assert table.values.shape == (4, len(table.names))
    assert table.values.dtype == np.float32
    assert table["problem.m"][0] == pytest.approx(np.log2(4097))
    assert (table["problem.epilogue=none"] == 1).all()
    assert (table["device.sm_count"] == np.float32(np.log2(133))).all()
    assert table["work.blocks"].tolist() == pytest.approx(np.log2([1025, 1025, 1025, 2049]).tolist())
    assert table["work.stages"].tolist() == [3, 2, 3, 3]
    assert table["work.unit_mma"].tolist() == [1, 1, 1, 1]
    assert table["schedule.matmul.stages"].tolist() == pytest.approx(np.log2([4, 3, 4, 4]).tolist())
    assert table["schedule.matmul.layout_a=swizzle(3,3,3)"].tolist() == [1, 1, 0, 1]
    assert table["schedule.matmul.raster=grouped_8"].tolist() == [1, 1, 0, 1]
    assert (table["attribute.matmul.threads"] == np.float32(np.log2(257))).all()
    expected = [np.log2(predict(counts(PROBLEM, MATMUL.config(PROBLEM, s, H200), H200), H200)) for s in SCHEDULES]
    assert table["model.seconds"].tolist() == pytest.approx(expected, rel=1e-6)
    assert (table["model.over_roofline"] > 0).all()
    assert (table["work.waste"] == 0).all()


def test_attributes_are_those_that_the_space_describes() -> None:
    table = features(TEMPLATES, PROBLEM, [GOOD], H200)
    attributes = MATMUL.space(PROBLEM, H200).config(GOOD).attributes
    assert len(attributes) > 10
    for name, value in attributes:
        assert table[f"attribute.matmul.{name}"][0] == pytest.approx(np.sign(value) * np.log2(1 + abs(value)), rel=1e-6)


def test_rows_do_not_depend_on_their_neighbours() -> None:
    together = features(TEMPLATES, PROBLEM, SCHEDULES, H200)
    for i, schedule in enumerate(SCHEDULES):
        alone = features(TEMPLATES, PROBLEM, [schedule], H200)
        assert alone.names == together.names
        np.testing.assert_array_equal(alone.values[0], together.values[i])


def test_no_schedules_give_a_table_without_rows() -> None:
    table = features(TEMPLATES, PROBLEM, [], H200)
    assert len(table) == 0
    assert table.names == features(TEMPLATES, PROBLEM, [GOOD], H200).names


def test_features_differ_between_devices_and_problems() -> None:
    here, on_h100 = features(TEMPLATES, PROBLEM, [GOOD], H200), features(TEMPLATES, PROBLEM, [GOOD], device("h100"))
    different = {n for n, a, b in zip(here.names, here.values[0], on_h100.values[0], strict=True) if a != b}
    assert {"device.l2_bytes", "device.dram_bandwidth", "model.seconds"} <= different
    assert not any(name.startswith(("schedule.", "problem.")) for name in different)


def test_tables_of_two_problems_join() -> None:
    one, other = (
        features(TEMPLATES, PROBLEM, [GOOD], H200),
        features(TEMPLATES, BATCHED, [GOOD.replace(batch_mapping="inner")], H200),
    )
    assert one.names != other.names
    names = common_names([one, other])
    joined = np.concatenate([align(one, names), align(other, names)])
    column = names.index("problem.epilogue=bias")
    assert joined[:, column].tolist() == [0, 1]
    assert joined[:, names.index("problem.epilogue=none")].tolist() == [1, 0]
    assert joined[:, names.index("schedule.matmul.batch_mapping=inner")].tolist() == [0, 1]
    np.testing.assert_array_equal(align(one, one.names), one.values)


def test_a_value_that_the_model_never_saw_is_dropped_and_a_lost_column_is_rejected() -> None:
    table = features(TEMPLATES, PROBLEM, [GOOD], H200)
    remaining_names = tuple(n for n in table.names if n != "schedule.matmul.raster=grouped_8")
    assert align(table, remaining_names).shape == (1, len(remaining_names))
    lost = tuple(n for n in table.names if n != "work.blocks")
    with pytest.raises(FeatureMismatch, match=r"work\.blocks") as error:
        align(table, lost)
    assert "\n" not in str(error.value)
    with pytest.raises(FeatureMismatch, match=r"work\.other"):
        align(table, (*table.names, "work.other"))
    with pytest.raises(ValueError, match="at least one"):
        common_names([])


TOY_SPACE = Space("toy", [ordinal("tile", (1, 2, 4))], [Attribute("area", lambda tile: tile**2)])
TOY = replace(
    MATMUL,
    name="toy",
    space=lambda problem, device: TOY_SPACE,
    counts=lambda problem, config, device: counts(problem, MATMUL.config(problem, GOOD, device), device),
)


def test_parameters_of_other_templates_are_missing() -> None:
    both = TemplateSet([MATMUL, TOY])
    toys = [Schedule("toy", (("tile", tile),)) for tile in (2, 4)]
    table = features(both, PROBLEM, [GOOD, toys[0], SCHEDULES[1], toys[1]], H200)
    alone = features(TEMPLATES, PROBLEM, [GOOD, SCHEDULES[1]], H200)
    assert set(table.names) == set(alone.names) | {"schedule.toy.tile", "attribute.toy.area"}
    for name in alone.names:
        np.testing.assert_array_equal(table[name][[0, 2]], alone[name])
        assert np.isnan(table[name][[1, 3]]).all() == (".matmul." in name)
    assert np.isnan(table["schedule.toy.tile"][[0, 2]]).all()
    assert table["schedule.toy.tile"][[1, 3]].tolist() == pytest.approx(np.log2([3, 5]).tolist())
    assert table["attribute.toy.area"][[1, 3]].tolist() == pytest.approx(np.log2([5, 17]).tolist())

    # The table of one template can be extended to the columns of two templates. The table of two templates can be
    # reduced to the columns of one.
    names = common_names([alone, table])
    joined = align(alone, names)
    np.testing.assert_array_equal(joined[:, names.index("model.seconds")], alone["model.seconds"])
    assert np.isnan(joined[:, names.index("schedule.toy.tile")]).all()
    np.testing.assert_array_equal(align(table, alone.names)[[0, 2]], align(alone, alone.names))
    # The missing column belongs to a template that both tables have.
    with pytest.raises(FeatureMismatch, match=r"schedule\.toy\.tile"):
        align(table, tuple(n for n in table.names if n != "schedule.toy.tile"))


def test_a_template_without_cost_counts_has_no_features() -> None:
    silent = TemplateSet([MATMUL, replace(TOY, counts=None)])
    assert features(silent, PROBLEM, [GOOD], H200).names == features(TEMPLATES, PROBLEM, [GOOD], H200).names
    with pytest.raises(ValueError, match="toy has no cost counts"):
        features(silent, PROBLEM, [GOOD, Schedule("toy", (("tile", 2),))], H200)


def test_schedules_that_do_not_belong_are_rejected() -> None:
    with pytest.raises(ValueError, match="unknown kernel template 'row_reduction': use one of matmul"):
        features(TEMPLATES, PROBLEM, [Schedule("row_reduction", GOOD.items)], H200)
    with pytest.raises(ValueError, match="lacks tile_m"):
        features(TEMPLATES, PROBLEM, [Schedule("matmul", GOOD.items[1:])], H200)
    with pytest.raises(ValueError, match="stages cannot be 9"):
        features(TEMPLATES, PROBLEM, [GOOD.replace(stages=9)], H200)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_table_without_numbers_is_rejected(bad: float) -> None:
    with pytest.raises(ValueError, match="feature b is NaN or infinite"):
        FeatureTable(("a", "b"), np.array([[1, 2], [3, bad]], dtype=np.float32))
    with pytest.raises(ValueError, match=r"feature schedule\.toy\.b is NaN or infinite"):
        FeatureTable(("a", "schedule.toy.b"), np.array([[1, 2], [3, np.inf]], dtype=np.float32))
    with pytest.raises(ValueError, match="1 names"):
        FeatureTable(("a",), np.zeros((2, 2), dtype=np.float32))
    with pytest.raises(ValueError, match="the same name"):
        FeatureTable(("a", "a"), np.zeros((2, 2), dtype=np.float32))
    with pytest.raises(KeyError):
        FeatureTable(("a",), np.zeros((2, 1), dtype=np.float32))["z"]
