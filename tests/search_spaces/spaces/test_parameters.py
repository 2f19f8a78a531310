import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.spaces.parameters import Parameter, categorical, ordinal
from search_spaces.spaces.schedule import Schedule

integers = st.lists(st.integers(-50, 5000), min_size=1, max_size=8, unique=True)
texts = st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=8, unique=True)
parameters = st.builds(
    Parameter, st.just("p"), st.one_of(integers, texts).map(tuple), kind=st.sampled_from(["ordinal", "categorical"])
)


def test_the_default_is_the_first_or_a_chosen_value() -> None:
    assert ordinal("tile", (16, 32)).default == 16
    assert ordinal("tile", (16, 32), default=32).default == 32


def test_neighbours_of_an_ordinal_are_the_adjacent_values() -> None:
    tile = ordinal("tile", (16, 32, 64))
    assert tile.neighbours(16) == (32,)
    assert tile.neighbours(32) == (16, 64)
    assert tile.neighbours(64) == (32,)


def test_neighbours_of_a_categorical_are_all_other_values() -> None:
    assert categorical("copy", ("ld", "cp", "tma")).neighbours("cp") == ("ld", "tma")


@given(parameters)
def test_being_neighbours_is_symmetric_and_never_reflexive(p: Parameter) -> None:
    for value in p.values:
        assert value not in p.neighbours(value)
        assert all(value in p.neighbours(other) for other in p.neighbours(value))


@given(parameters, st.integers(0, 2**32))
def test_a_mutant_is_another_value_of_the_domain(p: Parameter, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for value in p.values:
        mutant = p.mutate(value, rng)
        assert mutant in p.values
        assert (mutant == value) == (len(p.values) == 1)


def test_mutation_reaches_every_other_value_and_ordinals_mostly_step() -> None:
    rng = np.random.default_rng(0)
    codes = np.full(4000, 4, dtype=np.int64)
    steps = np.bincount(ordinal("o", tuple(range(9))).mutate_codes(codes, rng), minlength=9)
    assert steps[4] == 0 and (np.delete(steps, 4) > 0).all()
    assert steps[3] + steps[5] > 0.5 * len(codes)
    evenly = np.bincount(categorical("c", tuple("abcdefghi")).mutate_codes(codes, rng), minlength=9)
    assert evenly[4] == 0 and np.delete(evenly, 4).min() > 400


def test_mutation_at_the_ends_of_an_ordinal_steps_inwards() -> None:
    rng = np.random.default_rng(0)
    ends = np.repeat(np.array([0, 2], dtype=np.int64), 500)
    assert set(ordinal("o", (1, 2, 3)).mutate_codes(ends, rng)[:500]) == {1, 2}


def test_random_values_cover_the_domain() -> None:
    rng = np.random.default_rng(0)
    assert {ordinal("o", (1, 2, 3)).random(rng) for _ in range(100)} == {1, 2, 3}


def test_encoding_of_an_ordinal_does_not_depend_on_the_rest_of_the_domain() -> None:
    small, large = ordinal("tile", (16, 64)), ordinal("tile", (0, 16, 32, 64))
    assert np.array_equal(small.encode([16, 64]), large.encode([16, 64]))
    assert np.allclose(large.encode([0, 64])[:, 0], [0.0, np.log2(65)])


def test_encoding_of_texts_and_negative_numbers_is_the_position() -> None:
    assert ordinal("o", ("low", "high")).encode(["high", "low"])[:, 0].tolist() == [1.0, 0.0]
    assert ordinal("o", (-4, 0, 4)).encode([-4, 4])[:, 0].tolist() == [0.0, 2.0]


def test_encoding_of_a_categorical_is_one_hot() -> None:
    p = categorical("copy", ("ld", "cp", "tma"))
    assert p.encode(["cp", "ld"]).tolist() == [[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    assert p.encoded_names == ("copy=ld", "copy=cp", "copy=tma")


@given(parameters)
def test_encodings_tell_values_apart_and_match_their_names(p: Parameter) -> None:
    encoded = p.encode(p.values)
    assert encoded.dtype == np.float32 and encoded.shape == (len(p.values), len(p.encoded_names))
    assert len({tuple(row) for row in encoded.tolist()}) == len(p.values)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((), "no values"),
        ((1, 1), "the value 1 twice"),
        ((1, "a"), "mixes types"),
        ((True, 2), "mixes types"),
        ((1.5,), "mixes types"),
        ((2**70,), "beyond 62 bits"),
    ],
)
def test_a_bad_domain_is_rejected(values: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=f"parameter p .*{message}"):
        Parameter("p", values)  # type: ignore[arg-type]


def test_a_value_outside_the_domain_is_named() -> None:
    p = ordinal("tile", (16, 32))
    for wrong in (17, "16", True):
        with pytest.raises(ValueError, match=r"parameter tile cannot be .*: use one of 16, 32"):
            p.code(wrong)
    with pytest.raises(ValueError, match="parameter tile cannot be 64"):
        ordinal("tile", (16, 32), default=64)


def test_a_name_and_a_kind_are_required() -> None:
    with pytest.raises(ValueError, match="needs a name"):
        ordinal("", (1,))
    with pytest.raises(ValueError, match="kind 'nominal'"):
        Parameter("p", (1,), kind="nominal")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [[2], None, True, 2.0, {}])
def test_a_schedule_holds_integers_and_texts_only(value: object) -> None:
    with pytest.raises(ValueError, match="parameter stages cannot be"):
        Schedule.from_json("matmul", {"tile_m": 16, "stages": value})
