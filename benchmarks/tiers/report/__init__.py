"""The report: `figures`, `tables` and `findings` follow from a record; `markdown`, `html` and `docs` write them."""
