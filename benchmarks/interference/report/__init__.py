"""The HTML report of an experiment: `document` puts together the `timeline`, the `dose` plots and the `tables`."""
