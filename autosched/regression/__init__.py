"""Has a tuned kernel become slower or wrong?

Start at ``check``: every entry of a database is still valid, right, and as fast as it was. ``judging`` has the
statistics, ``pytest_plugin`` the same for a test suite.
"""
