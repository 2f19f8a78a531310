"""A plan of measurements for fifteen minutes on a GPU. The plan is prepared on a CPU and run in parts.

``prepared.py`` chooses and compiles schedules on a CPU. ``parts.py`` measures on the GPU, where nothing is searched or
compiled. ``run.py`` is the command.
"""
