"""What is one measurement, and when do two differ?

Start at ``record``; ``signed_rank`` and ``near_ties`` judge differences, ``comparison`` says whether outputs are right.
It must not know where records are kept.
"""
