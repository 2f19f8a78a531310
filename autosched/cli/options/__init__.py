"""Options of commands, and conversion of option texts to values.

Start at ``groups.py``: each group of options that commands share is a dataclass. Each other file converts one kind of
text to a value: problems, devices, kernel files, schedules, arguments of a launch. Invalid text raises ``InputError``
with a message of one line. This package must not import commands.
"""
