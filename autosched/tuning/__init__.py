"""How is the search for a fast schedule run, for one problem?

Start at ``tune``; ``loop`` has the trials, ``ledger`` what became of them, ``paired_timing`` which finalist wins.
It must not know the command line, nor how tuned kernels are called.
"""
