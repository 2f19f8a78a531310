"""How do two processes talk? Start at ``worker``: requests, answers, time limits, blobs sent once.

It must not know what is asked: compilers and GPUs are other rooms.
"""
