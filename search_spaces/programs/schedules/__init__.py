"""The decisions that a program leaves open, their rules, and what each schedule costs."""
