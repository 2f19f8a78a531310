"""Bayesian optimisation, the default sampler: start at ``sampler``. Candidates, coordinates, acquisition."""
