"""Documents as bytes: BSON of fixed width, written and read with numpy (`documents`); those of a group (`formats`)."""
