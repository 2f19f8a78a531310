"""What do measurements teach?

Boosted trees learn corrections on top of the time model. Start at ``trained_model.py``; ``training.py`` fits,
``observations.py`` prepares the data, ``evaluation.py`` reports the quality on held-out problems. Nothing here
measures.
"""
