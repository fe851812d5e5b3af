"""Studies behind decisions: programs of their own, run by hand, each named in the decision that it supports."""
