"""The report of a run as one HTML file: it opens offline, asks nothing of the outside and runs no script."""
