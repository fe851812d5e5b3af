"""Documents as bytes: their layout (`documents`), and what those of a group say (`triggers`)."""
