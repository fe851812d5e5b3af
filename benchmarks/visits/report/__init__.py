"""The HTML reports of visits: `run` of one run, `comparison` of a comparison; `charts` draws, `elements` is shared."""
