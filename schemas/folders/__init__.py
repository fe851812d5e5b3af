"""Conditions by channel: folders of channels, each with values that are valid for intervals of time.

A folder is a leaf of a tree of folder sets, and is named by its path. Its channels have numbers and names, and one
value has the same columns in all of them. Read `folders` (what there is in the tree), then `blocks` (intervals as
columns, and what is checked of them), then `timeline` (what an insertion changes in a single-version folder, and which
version holds in a multi-version one).
"""
