"""How are results shown?

Start at ``formatting`` (numbers with units, tables, bounds in words); ``pictures`` draws layouts, ``html`` the report.
"""
