"""What crosses a boundary: configuration, wire format, readings, ledger, queries, states, the HTTP contract. No I/O."""
