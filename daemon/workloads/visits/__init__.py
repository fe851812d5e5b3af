"""Mock DIA visits: the sky, its tiles, association, and the pipeline that reads and writes a visit."""
