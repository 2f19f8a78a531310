"""One script per schema, whose number is its revision."""
