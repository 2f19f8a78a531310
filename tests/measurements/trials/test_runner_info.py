"""Functions that read fingerprints and problem keys."""

import pytest

from measurements.trials.problem_key import fields_of, operator_of
from measurements.trials.runner_info import RunnerInfo, stated_of


def test_fields_are_texts_and_those_not_stated_are_empty() -> None:
    info = RunnerInfo.of('{"cache":"warm","sm":"sm_90a","sm_count":132,"model":null,"other":"x"}')
    assert info == RunnerInfo(cache="warm", arch="sm_90a", sm_count="132") and info.warm
    assert RunnerInfo.of("{}") == RunnerInfo() and not RunnerInfo().warm


def test_a_string_value_does_not_set_the_cache_policy() -> None:
    assert not RunnerInfo.of('{"name":"\\"cache\\":\\"warm\\""}').warm


@pytest.mark.parametrize("text", ["[]", "1", "x", ""])
def test_json_other_than_objects_is_rejected(text: str) -> None:
    with pytest.raises(ValueError):
        RunnerInfo.of(text)


def test_a_key_of_another_form_has_no_operator() -> None:
    assert operator_of('{"operator":"matmul","m":1}') == "matmul"
    for key in ("{}", "[]", '{"n":64', '{"operator":["copy"]}'):
        assert operator_of(key) == ""


def test_fields_of_any_version_are_read() -> None:
    assert fields_of('{"operator":"unheard_of","size":3}') == {"operator": "unheard_of", "size": 3}
    assert fields_of("[1]") == fields_of("{") == {}


def test_all_stated_fields_are_text() -> None:
    assert stated_of('{"sm_count":132,"other":"x"}') == {"sm_count": "132", "other": "x"}
