"""The server of conditions: calibrations and settings by global tag, over the REST contract of the reference database."""
