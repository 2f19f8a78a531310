"""Which schedule is fastest? ``autosched tune``, of one problem, a suite, a Triton kernel or an MoE model."""
