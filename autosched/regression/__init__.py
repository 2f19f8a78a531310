"""Guarding tuned schedules in CI: is every entry of a database still valid, right, and as fast as it was?"""
