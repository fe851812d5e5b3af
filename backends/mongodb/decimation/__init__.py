"""Reducing periods: `accounts` says how far each is, `reducing` goes through one, `removing` takes documents out."""
