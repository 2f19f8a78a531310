"""Tuning of the matrix products of a mixture-of-experts layer. Each best schedule is compared with the default."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosched.samplers.first_choices.model_choice import default_choice, predicted_seconds
from autosched.tuning.tune import tune
from measurements.store.store import Store
from measurements.trials.gain import SAME, Word, ratio_of_medians, word_of
from measurements.trials.measurement import Provenance, Status, Timing
from measurements.trials.trial import Trial
from search_spaces.catalogue import templates_for
from search_spaces.hardware.devices import Device
from search_spaces.operators.matmul import Matmul


@dataclass(frozen=True)
class ExpertProduct:
    """A matrix product that an expert computes.

    Attributes:
        tokens: Batch sizes (numbers of tokens) at which an expert multiplies as many rows as ``problem`` has.
        part: Layer of the expert: "gate and up" or "down".
        problem: The product.
    """

    tokens: tuple[int, ...]
    part: str
    problem: Matmul


@dataclass(frozen=True)
class TunedProduct:
    """Result of tuning a product.

    Attributes:
        product: The product.
        default_seconds: Time of the default schedule, which is used by calls without a database. None if unknown.
        best: Best trial in the database; None if no schedule works.
        ratio: Default time divided by the best time; None if the default time is unknown.
        interval: Confidence interval of the ratio.
    """

    product: ExpertProduct
    default_seconds: float | None
    best: Trial | None
    ratio: float | None
    interval: tuple[float, float] | None

    @property
    def word(self) -> Word | None:
        """Result in one word: "default" or "tuned" (the faster one), or "noise". None if no schedule works."""
        return None if self.best is None else word_of(self.ratio, self.interval)


def refuse_products(products: Sequence[ExpertProduct], device: Device) -> None:
    """Raise ValueError if no kernel supports the type of the products on ``device``."""
    for product in products:
        try:
            templates_for(product.problem, device)
        except ValueError as error:
            name = product.problem.a
            raise ValueError(
                f"no kernel multiplies experts of type {name} on {device.name} ({device.arch}): use a GPU whose tensor "
                "cores support block scales (sm_100a, sm_103a, sm_110a, sm_120a, sm_121a), or give --dtype if they are "
                "served as another type"
            ) from error


def tune_products(
    products: Sequence[ExpertProduct],
    device: Device,
    database: str | Path,
    *,
    estimate_noise: float,
    on_product: Callable[[str], None] = lambda note: None,
    **options: Any,
) -> list[TunedProduct]:
    """Tune each product, and compare its best schedule with the default schedule.

    Args:
        products: Products to tune.
        device: GPU to tune for.
        database: Path or SQLAlchemy URL.
        estimate_noise: Noise of estimated times, as a fraction.
        on_product: Function called with each product's result.
        options: Further options of ``tune``, such as ``trials``.

    Returns:
        The results, in the order of ``products``.

    Raises:
        ValueError: As in ``tune``, or the device has no kernel for the type of the products.
    """
    refuse_products(products, device)
    tuned = []
    for product in products:
        result = tune(product.problem, device=device, database=database, progress=False, **options)
        with Store.open(database) as store:
            tuned.append(_compared(product, result.best, device, store, estimate_noise))
        on_product("")
    return tuned


def _compared(
    product: ExpertProduct, best: Trial | None, device: Device, store: Store, estimate_noise: float
) -> TunedProduct:
    problem, choice = product.problem, default_choice(product.problem, device)
    if best is None or choice is None:
        return TunedProduct(product, None, best, None, None)
    if best.schedule == choice.schedule:
        return TunedProduct(product, best.seconds, best, *SAME)
    tried = store.trials(problem, best.device, best.provenance, status=Status.OK)
    default = next((trial for trial in reversed(tried) if trial.schedule == choice.schedule), None)
    after = best.measurement.timing
    assert after is not None
    if default is not None and default.measurement.timing is not None:
        before = default.measurement.timing
    # if the search did not try the default, use the ratio of the model's estimates
    elif best.provenance is Provenance.ESTIMATED:
        schedules = [choice.schedule, best.schedule]
        guessed = predicted_seconds(templates_for(problem, device), problem, schedules, device)
        before = Timing.estimate(after.median * guessed[0] / guessed[1])
    else:
        return TunedProduct(product, None, best, None, None)
    return TunedProduct(product, before.median, best, *ratio_of_medians(before, after, estimate_noise))
