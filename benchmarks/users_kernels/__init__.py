"""How well times of users' kernels are estimated: kernels of Kernel Tuner's hub against their recordings."""
