"""The report: `tables` and `findings` follow from a record; `markdown` and `html` write them."""
