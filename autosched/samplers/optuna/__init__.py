"""Our samplers inside an Optuna study: ``study_sampler``, with the axes of a study's parameters."""
