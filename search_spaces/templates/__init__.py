"""How it is computed: one folder per kernel template."""
