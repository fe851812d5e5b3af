"""The report of a run: a `Run` in, the text of one HTML file out; `page` puts the sections together."""
