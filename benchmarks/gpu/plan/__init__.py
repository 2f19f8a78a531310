"""Fifteen minutes on a GPU, prepared on a CPU: what to measure, compiled before, in parts that may be run one by one.

``prepared`` chooses schedules and compiles them; ``parts`` has what is run on the GPU, and ``run`` is the command.
Start reading at ``parts``. Nothing here searches, and nothing compiles on the GPU's time.
"""
