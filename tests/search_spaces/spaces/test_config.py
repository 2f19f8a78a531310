"""A config maps names to the decisions of a schedule and to the derived attributes."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from search_spaces.spaces.config import Config
from search_spaces.spaces.parameters import categorical, ordinal
from search_spaces.spaces.rules import Attribute, Rule
from search_spaces.spaces.schedule import Schedule
from search_spaces.spaces.space import Space

SPACE = Space(
    "toy",
    [ordinal("tile", (1, 2, 4)), ordinal("stages", (1, 2)), categorical("order", ("row", "col"))],
    [
        Attribute("bytes", lambda area, stages: area * stages),
        Attribute("area", lambda tile: tile**2),
    ],
    [Rule("fits", lambda bytes: bytes <= 16, "{bytes} bytes do not fit")],
    [Rule("wasteful", lambda tile: tile > 1, "a tile of 1 wastes lanes")],
)
SCHEDULE = Schedule("toy", (("tile", 2), ("stages", 2), ("order", "col")))


def test_a_config_maps_parameters_and_attributes_to_values() -> None:
    config = SPACE.config(SCHEDULE)
    assert config.schedule is SCHEDULE
    assert dict(config) == {"tile": 2, "stages": 2, "order": "col", "area": 4, "bytes": 8}
    assert list(config) == ["tile", "stages", "order", "area", "bytes"], "an attribute follows those that it needs"
    assert len(config) == 5 and "area" in config and "threads" not in config
    assert (config["order"], config["bytes"]) == ("col", 8)
    assert config.get("threads") is None
    with pytest.raises(KeyError, match="threads"):
        _ = config["threads"]


def test_values_are_had_by_their_type() -> None:
    config = SPACE.config(SCHEDULE)
    assert config.integer("tile") == 2 and config.integer("bytes") == 8
    assert config.integers("stages", "area") == (2, 4)
    assert config.text("order") == "col"
    assert type(config["bytes"]) is int, "not a numpy integer: it is written into source and JSON"
    with pytest.raises(TypeError, match="order is 'col', not an integer"):
        config.integer("order")
    with pytest.raises(TypeError, match="area is 4, not a string"):
        config.text("area")
    with pytest.raises(KeyError):
        config.integer("threads")
    with pytest.raises(KeyError):
        config.text("threads")


def test_equal_configs_have_equal_hashes() -> None:
    one, other = SPACE.config(SCHEDULE), SPACE.config(dict(SCHEDULE.items))
    assert one == other and hash(one) == hash(other)
    assert {one: "known"}[other] == "known"
    assert one != SPACE.config(SCHEDULE.replace(tile=4))
    assert one != Config(SCHEDULE, (("area", 4),)), "another problem may give the same schedule other attributes"
    with pytest.raises(FrozenInstanceError):
        one.schedule = SCHEDULE.replace(tile=4)  # type: ignore[misc]


def test_a_batch_of_configs_agrees_with_single_configs() -> None:
    values = [{"tile": t, "stages": s, "order": o} for t in (1, 2, 4) for s in (1, 2) for o in ("row", "col")]
    mixed = [Schedule("toy", tuple(v.items())) if i % 2 else v for i, v in enumerate(values)]
    configs = SPACE.configs(mixed)
    assert configs == [SPACE.config(v) for v in values]
    assert [c["bytes"] for c in configs] == [int(v["tile"]) ** 2 * int(v["stages"]) for v in values]
    assert SPACE.configs([]) == []


def test_the_valid_space_only_has_the_constraints() -> None:
    assert [r.name for r in SPACE.valid.rules] == [r.name for r in SPACE.constraints] == ["fits"]
    assert (SPACE.valid.name, SPACE.valid.parameters) == (SPACE.name, SPACE.parameters)
    assert (SPACE.count(), SPACE.valid.count()) == (6, 10)
    wasteful, large = SCHEDULE.replace(tile=1), SCHEDULE.replace(tile=4)
    SPACE.valid.validate(wasteful)
    with pytest.raises(ValueError, match=r"^wasteful: a tile of 1 wastes lanes$"):
        SPACE.validate(wasteful)
    for space in (SPACE, SPACE.valid):
        with pytest.raises(ValueError, match=r"^fits: 32 bytes do not fit$"):
            space.validate(large)
    assert SPACE.config(large)["bytes"] == 32, "a config has derived values even if it is not legal"
