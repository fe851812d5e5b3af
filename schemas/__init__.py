"""What crosses a boundary: configuration, wire format, blocks, ledger, tables, queries, status. No I/O."""
