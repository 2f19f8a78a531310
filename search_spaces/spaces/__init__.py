"""What may vary: parameters, rules, and spaces of schedules that are counted and sampled exactly."""
