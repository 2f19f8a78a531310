"""How long it will take: an analytic model, features, and a model learned from measurements."""
