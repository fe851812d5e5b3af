"""The interference experiment: what readers do to the writing, measured in blocks without and with them."""
