"""Benchmark of mock DIA visits: conditions in turns on throw-away servers, the paper's findings, and the report."""
