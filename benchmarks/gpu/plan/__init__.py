"""A plan for fifteen minutes on a GPU, prepared and compiled on a CPU, in parts that can be run one by one.

``prepared`` chooses schedules and compiles them; ``parts`` runs on the GPU, and ``run`` is the command. On the GPU,
nothing is searched or compiled.
"""
