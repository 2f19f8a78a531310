"""How well the time of users' kernels is estimated: kernels of Kernel Tuner's benchmark hub against their recordings."""
