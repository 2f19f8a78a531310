"""Optuna as a sampler, and ours as one of Optuna's."""
