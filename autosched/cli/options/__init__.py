"""What do options mean? From texts of the command line to problems, kernels, devices and stored schedules."""
