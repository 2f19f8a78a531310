"""The options of an emulation are one object. Keyword arguments build this object or override its fields."""

import pytest

from measurements.emulator import ASCENDING, EmulateOptions, Order
from measurements.emulator.runner_files import RunSettings


def test_keywords_build_settings_and_override_options() -> None:
    options = EmulateOptions(time_limit=5.0, order=Order("ascending", 3))
    settings = RunSettings.gathered(options, {"check": False})
    assert (settings.time_limit, settings.order, settings.check) == (5.0, Order("ascending", 3), False)
    assert RunSettings.gathered(None, {}).order == ASCENDING
    assert RunSettings.gathered(None, {"count": True}) == RunSettings(count=True)


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan")])
def test_a_time_limit_that_cannot_be_used_is_rejected(limit: float) -> None:
    with pytest.raises(ValueError, match="time_limit"):
        EmulateOptions(time_limit=limit)
    with pytest.raises(TypeError, match="limit"):
        EmulateOptions.gathered(None, {"limit": limit})
