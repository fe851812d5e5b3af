"""Snapshot readers on the tab Reads: the run that is shown, its clients, its charts, those that were, and a form."""
