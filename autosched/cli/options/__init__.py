"""What options say: problems, kernels, launches, devices, stored schedules."""
