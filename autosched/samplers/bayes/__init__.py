"""Bayesian optimisation: the default sampler."""
