"""Conditions by global tag: what each database implements (`base`)."""
