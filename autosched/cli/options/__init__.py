"""What do the options of a command mean?

Start at ``groups.py``: options that commands share are a dataclass a group. Each other file turns one kind of text
into a value: problems, devices, kernel files, schedules, arguments of a launch. Bad text raises ``InputError``, whose
message is one line. This room must not import commands.
"""
