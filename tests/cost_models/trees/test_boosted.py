"""The boosted model learns, is reproducible, and rejects unusable data."""

import dataclasses

import numpy as np
import numpy.typing as npt
import pytest

from cost_models.trees.boosted import BoostedModel, BoostedTreeSettings, ModelMismatch, held_out_rows
from cost_models.trees.evaluation import rank_correlation, top_k_recall

Matrix = npt.NDArray[np.float32]
Times = npt.NDArray[np.float64]
QUICK = BoostedTreeSettings(rounds=120, patience=20)


def kernels(rows: int, seed: int, scale: float = 1e-4) -> tuple[Matrix, Times]:
    """Return a synthetic space: six decisions, times with an interaction, a cliff and 1% noise."""
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 6, (rows, 6)).astype(np.float32)
    log = 0.3 * np.abs(x[:, 0] - 3) + 0.2 * np.abs(x[:, 1] - x[:, 2]) + 0.8 * (x[:, 3] > 4) + 0.05 * x[:, 4]
    return x, scale * np.exp(log + 0.01 * rng.standard_normal(rows))


def test_held_out_kernels_are_ordered_well() -> None:
    x, seconds = kernels(1200, seed=1)
    model = BoostedModel.fit(x[:300], seconds[:300], settings=QUICK)
    predicted = model.predict(x[300:])
    assert rank_correlation(predicted, seconds[300:]) > 0.93
    assert top_k_recall(predicted, seconds[300:], 10) > 0.9
    assert np.median(np.abs(predicted - np.log(seconds[300:]))) < 0.15


def test_noise_stops_the_trees_early() -> None:
    """The labels are noise: more trees reduce the training error, but not the error on held-out rows."""
    rng = np.random.default_rng(3)
    x = rng.random((200, 4)).astype(np.float32)
    noise = BoostedModel.fit(x, np.exp(rng.standard_normal(200)), settings=QUICK)
    y, seconds = kernels(200, seed=4)
    signal = BoostedModel.fit(y, seconds, settings=QUICK)
    assert len(noise.members[0].sizes) < 30 < len(signal.members[0].sizes)


def test_the_same_seed_gives_the_same_model() -> None:
    x, seconds = kernels(120, seed=5)
    first, second = (BoostedModel.fit(x, seconds, settings=QUICK) for _ in range(2))
    assert first == second
    other = BoostedModel.fit(x, seconds, settings=dataclasses.replace(QUICK, seed=1))
    assert other.members != first.members


def test_the_unit_of_time_does_not_change_the_order() -> None:
    x, seconds = kernels(120, seed=6)
    first = BoostedModel.fit(x, seconds, settings=QUICK)
    slower = BoostedModel.fit(x, seconds * 1024.0, settings=QUICK)
    np.testing.assert_allclose(slower.predict(x) - first.predict(x), np.log(1024.0), atol=1e-3)


def test_problems_of_different_size_are_learned_together() -> None:
    """Times of two problems differ by a factor of 1000, but the model learns the order of schedules from both.

    Each problem's times are divided by the problem's best time.
    """
    x1, s1 = kernels(150, seed=7)
    x2, s2 = kernels(150, seed=8, scale=1e-1)
    groups = ["small"] * 150 + ["large"] * 150
    model = BoostedModel.fit(np.concatenate([x1, x2]), np.concatenate([s1, s2]), groups, settings=QUICK)
    test_x, test_s = kernels(500, seed=9)
    assert rank_correlation(model.predict(test_x), test_s) > 0.9
    mixed = BoostedModel.fit(np.concatenate([x1, x2]), np.concatenate([s1, s2]), settings=QUICK)
    assert rank_correlation(model.predict(test_x), test_s) > rank_correlation(mixed.predict(test_x), test_s)


def test_members_disagree_most_far_from_measurements() -> None:
    rng = np.random.default_rng(10)
    x = rng.random((200, 2)).astype(np.float32)
    seconds = np.exp(3 * x[:, 0].astype(np.float64))
    seen = x[:, 0] < 0.5
    model = BoostedModel.fit(x[seen], seconds[seen], settings=dataclasses.replace(QUICK, members=4))
    spread = model.spread(x)
    assert spread.shape == (200,)
    assert (spread >= 0).all()
    assert spread.max() > 0
    alone = BoostedModel.fit(x[seen], seconds[seen], settings=QUICK)
    assert (alone.spread(x) == 0).all()
    assert len(set(model.members)) == 4


def test_few_rows_and_equal_times_are_enough() -> None:
    x, seconds = kernels(4, seed=11)
    assert BoostedModel.fit(x, seconds, settings=QUICK).predict(x).shape == (4,)
    same = BoostedModel.fit(x, np.full(4, 2e-3), settings=QUICK)
    np.testing.assert_allclose(np.exp(same.predict(x)), 2e-3, rtol=1e-5)
    assert same.predict(np.zeros((0, 6), dtype=np.float32)).shape == (0,)


def test_the_model_corrects_an_estimate() -> None:
    """Column "guess" estimates the time without the factor that column "effect" adds. The model learns this factor."""
    rng = np.random.default_rng(18)
    guess = rng.uniform(-20.0, -10.0, 300)
    effect = rng.integers(0, 3, 300)
    seconds = 2.0**guess * np.array([0.7, 1.0, 3.0])[effect]
    x = np.stack([guess, effect], axis=1).astype(np.float32)
    groups = list(range(100)) * 3
    model = BoostedModel.fit(x, seconds, groups, names=["guess", "effect"], settings=QUICK, corrects="guess")
    beyond = np.array([[-5.0, 0.0], [-5.0, 2.0]], dtype=np.float32)
    np.testing.assert_allclose(np.exp(model.predict(beyond)), [2.0**-5 * 0.7, 2.0**-5 * 3.0], rtol=0.2)
    assert BoostedModel.from_json(model.to_json()) == model
    with pytest.raises(ValueError, match="nothing is not one of"):
        BoostedModel.fit(x, seconds, settings=QUICK, corrects="nothing")


def test_contributions_add_up_to_the_prediction() -> None:
    x, seconds = kernels(200, seed=19)
    model = BoostedModel.fit(x, seconds, settings=dataclasses.replace(QUICK, members=2))
    shares = model.contributions(x)
    residual = model.predict(x) - shares.sum(axis=1)
    np.testing.assert_allclose(residual, residual[0], atol=1e-4)
    decides = np.abs(shares).mean(axis=0)
    assert set(decides.argsort()[-2:]) == {0, 3}  # feature 0 has the steepest slope, 3 the cliff
    assert decides.argmin() == 5  # this feature does not affect the times
    assert model.gain()[5] < 0.1 < model.gain()[3]
    assert model.gain().sum() == pytest.approx(1.0)


def test_rows_of_another_width_are_rejected() -> None:
    x, seconds = kernels(30, seed=15)
    model = BoostedModel.fit(x, seconds, settings=QUICK)
    with pytest.raises(ModelMismatch, match="6 features, but the rows have 5"):
        model.predict(x[:, :5])


def test_missing_values_are_informative() -> None:
    x, seconds = kernels(400, seed=16)
    x[::2, 2] = np.nan
    seconds[::2] *= 32.0
    model = BoostedModel.fit(x, seconds, settings=QUICK)
    present, missing = x[1::2].copy(), x[1::2].copy()
    missing[:, 2] = np.nan
    predicted = model.predict(missing) - model.predict(present)
    assert np.isfinite(predicted).all()
    assert np.log(8.0) < np.median(predicted) < np.log(128.0)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, 1e300])
def test_nan_and_infinite_features_are_rejected(bad: float) -> None:
    x, seconds = kernels(30, seed=16)
    spoiled = x.astype(np.float64)
    spoiled[3, 2] = bad
    with pytest.raises(ValueError, match="finite"):
        BoostedModel.fit(spoiled, seconds, settings=QUICK)
    model = BoostedModel.fit(x, seconds, settings=QUICK)
    with pytest.raises(ValueError, match="finite"):
        model.predict(spoiled)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 0.0, -1.0])
def test_invalid_times_are_rejected(bad: float) -> None:
    x, seconds = kernels(30, seed=17)
    seconds[3] = bad
    with pytest.raises(ValueError, match="omit failed trials"):
        BoostedModel.fit(x, seconds, settings=QUICK)


def test_shapes_that_do_not_match_are_rejected() -> None:
    x, seconds = kernels(30, seed=18)
    with pytest.raises(ValueError, match="one time per row"):
        BoostedModel.fit(x, seconds[:-1], settings=QUICK)
    with pytest.raises(ValueError, match="at least two rows"):
        BoostedModel.fit(x[:1], seconds[:1], settings=QUICK)
    with pytest.raises(ValueError, match="different names"):
        BoostedModel.fit(x, seconds, names=["a"] * 6, settings=QUICK)
    with pytest.raises(ValueError, match="two-dimensional"):
        BoostedModel.fit(x[:, 0], seconds, settings=QUICK)
    with pytest.raises(ValueError, match="name for each"):
        BoostedModel.fit(x, seconds, ["g"], settings=QUICK)


@pytest.mark.parametrize(
    "change", [{"rounds": 0}, {"eta": 0.0}, {"subsample": 1.5}, {"held_out": 1.0}, {"members": 0}, {"seed": -1}]
)
def test_settings_are_checked(change: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        BoostedTreeSettings(**change)  # type: ignore[arg-type]


def test_whole_problems_are_held_out_from_five_problems_on() -> None:
    codes = np.repeat(np.arange(10), 7)
    mask = held_out_rows(codes, 0.2, seed=1)
    assert mask.sum() == 14
    assert all(mask[codes == g].all() or not mask[codes == g].any() for g in range(10))
    few = held_out_rows(np.repeat(np.arange(2), 10), 0.2, seed=1)
    assert few.sum() == 4
    assert (held_out_rows(codes, 0.2, seed=1) == mask).all()
