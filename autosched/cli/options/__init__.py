"""What do the options of a command mean?

Each file turns one kind of text into a value: problems, devices, kernel files, schedules, arguments of a launch.
Start at ``sources.py``, which says where a problem comes from. Bad text raises ``InputError``, whose message is one
line.
"""
