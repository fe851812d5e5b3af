"""Checking what people write: models of sections, paths and limits of their fields, and what is wrong with them."""
