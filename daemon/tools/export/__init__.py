"""Export: readings of a span of time out of the database into a file for other programs, in bounded memory."""
