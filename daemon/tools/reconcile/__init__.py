"""Reconciling: what should be in the database, counted there."""
