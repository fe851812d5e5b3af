"""Sources: where readings come in. Each turns received bytes into blocks and hands them to its group's pipeline."""
