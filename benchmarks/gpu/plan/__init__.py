"""A plan for fifteen minutes on a GPU, prepared and compiled on a CPU, in parts that can be run one by one.

``prepared`` chooses schedules and compiles them; ``parts`` runs on the GPU, and ``run`` is the command.
Start reading at ``parts``. Nothing here searches, and nothing compiles on the GPU's time.
"""
