"""Features mean what their names say, join across problems, and are the same one by one and together."""

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
from search_spaces.catalogue import template
from search_spaces.hardware.devices import device
from search_spaces.operators.matmul import Matmul
from search_spaces.spaces.schedule import Schedule

H200 = device("h200")
PROBLEM = Matmul(m=4096, n=4096, k=4096, a="f16", b="f16", out="f16")
BATCHED = Matmul(m=512, n=512, k=256, batch=3, a="f16", b="f16", out="f16", epilogue="bias")
GOOD = Schedule(
    "matmul",
    (
        *(("tile_m", 128), ("tile_n", 128), ("tile_k", 64), ("intrinsic", "mma_m16n8k16_f16")),
        *(("sg_layout_m", 2), ("sg_layout_n", 4), ("sg_data_m", 64), ("sg_data_n", 32)),
        *(("layout_a", "swizzle(3,3,3)"), ("layout_b", "pad(8,1)"), ("copy_a", "cp.async"), ("copy_b", "cp.async")),
        *(("vector_a", 8), ("vector_b", 8), ("copy_columns_a", 8), ("copy_columns_b", 16)),
        *(("stages", 3), ("k_unroll", 2), ("epilogue", "registers"), ("min_blocks", 1)),
        *(("split_k", 1), ("raster", "grouped_8"), ("batch_mapping", "outer")),
    ),
)
SCHEDULES = (GOOD, GOOD.replace(stages=2), GOOD.replace(layout_a="pad(8,1)", raster="row"), GOOD.replace(split_k=2))


def test_every_feature_is_documented_once() -> None:
    names = [f.name for f in FEATURES]
    assert len(set(names)) == len(names)
    assert all(f.doc and f.name.split(".")[0] in ("problem", "device", "work", "model") for f in FEATURES)


def test_a_table_holds_what_the_names_say() -> None:
    table = features(PROBLEM, SCHEDULES, H200)
    assert table.values.shape == (4, len(table.names))
    assert table.values.dtype == np.float32
    assert table["problem.m"][0] == pytest.approx(np.log2(4097))
    assert (table["problem.epilogue=none"] == 1).all()
    assert (table["device.sm_count"] == np.float32(np.log2(133))).all()
    assert table["work.blocks"].tolist() == pytest.approx(np.log2([1025, 1025, 1025, 2049]).tolist())
    assert table["work.stages"].tolist() == [3, 2, 3, 3]
    assert table["work.unit_mma"].tolist() == [1, 1, 1, 1]
    assert table["schedule.stages"].tolist() == pytest.approx(np.log2([4, 3, 4, 4]).tolist())
    assert table["schedule.layout_a=swizzle(3,3,3)"].tolist() == [1, 1, 0, 1]
    assert table["schedule.raster=grouped_8"].tolist() == [1, 1, 0, 1]
    assert (table["attribute.threads"] == np.float32(np.log2(257))).all()
    work = template("matmul").counts
    expected = [np.log2(predict(work(PROBLEM, s, H200), H200)) for s in SCHEDULES]
    assert table["model.seconds"].tolist() == pytest.approx(expected, rel=1e-6)
    assert (table["model.over_roofline"] > 0).all()
    assert (table["work.waste"] == 0).all()


def test_attributes_are_those_that_the_space_describes() -> None:
    table = features(PROBLEM, [GOOD], H200)
    for name, value in template("matmul").space(PROBLEM, H200).describe(GOOD).items():
        assert table[f"attribute.{name}"][0] == pytest.approx(np.sign(value) * np.log2(1 + abs(value)), rel=1e-6)


def test_rows_do_not_depend_on_their_neighbours() -> None:
    together = features(PROBLEM, SCHEDULES, H200)
    for i, schedule in enumerate(SCHEDULES):
        alone = features(PROBLEM, [schedule], H200)
        assert alone.names == together.names
        np.testing.assert_array_equal(alone.values[0], together.values[i])


def test_no_schedules_give_a_table_without_rows() -> None:
    table = features(PROBLEM, [], H200)
    assert len(table) == 0
    assert table.names == features(PROBLEM, [GOOD], H200).names


def test_devices_and_problems_are_told_apart() -> None:
    here, there = features(PROBLEM, [GOOD], H200), features(PROBLEM, [GOOD], device("h100"))
    different = {n for n, a, b in zip(here.names, here.values[0], there.values[0], strict=True) if a != b}
    assert {"device.l2_bytes", "device.dram_bandwidth", "model.seconds"} <= different
    assert not any(name.startswith(("schedule.", "problem.")) for name in different)


def test_tables_of_two_problems_join() -> None:
    one, other = features(PROBLEM, [GOOD], H200), features(BATCHED, [GOOD.replace(batch_mapping="inner")], H200)
    assert one.names != other.names
    names = common_names([one, other])
    joined = np.concatenate([align(one, names), align(other, names)])
    column = names.index("problem.epilogue=bias")
    assert joined[:, column].tolist() == [0, 1]
    assert joined[:, names.index("problem.epilogue=none")].tolist() == [1, 0]
    assert joined[:, names.index("schedule.batch_mapping=inner")].tolist() == [0, 1]
    np.testing.assert_array_equal(align(one, one.names), one.values)


def test_a_value_that_the_model_never_saw_is_dropped_and_a_lost_column_is_refused() -> None:
    table = features(PROBLEM, [GOOD], H200)
    kept = tuple(n for n in table.names if n != "schedule.raster=grouped_8")
    assert align(table, kept).shape == (1, len(kept))
    lost = tuple(n for n in table.names if n != "work.blocks")
    with pytest.raises(FeatureMismatch, match=r"work\.blocks") as error:
        align(table, lost)
    assert "\n" not in str(error.value)
    with pytest.raises(FeatureMismatch, match=r"work\.other"):
        align(table, (*table.names, "work.other"))
    with pytest.raises(ValueError, match="no features"):
        common_names([])


def test_schedules_that_do_not_belong_are_refused() -> None:
    with pytest.raises(ValueError, match="a schedule of softmax"):
        features(PROBLEM, [Schedule("row_reduction", GOOD.items)], H200)
    with pytest.raises(ValueError, match="lacks tile_m"):
        features(PROBLEM, [Schedule("matmul", GOOD.items[1:])], H200)
    with pytest.raises(ValueError, match="stages cannot be 9"):
        features(PROBLEM, [GOOD.replace(stages=9)], H200)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_table_without_numbers_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="feature b is NaN or infinite"):
        FeatureTable(("a", "b"), np.array([[1, 2], [3, bad]], dtype=np.float32))
    with pytest.raises(ValueError, match="1 names do not fit"):
        FeatureTable(("a",), np.zeros((2, 2), dtype=np.float32))
    with pytest.raises(ValueError, match="the same name"):
        FeatureTable(("a", "a"), np.zeros((2, 2), dtype=np.float32))
    with pytest.raises(KeyError):
        FeatureTable(("a",), np.zeros((2, 1), dtype=np.float32))["z"]
