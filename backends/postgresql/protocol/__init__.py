"""How PostgreSQL is spoken to: connections, SQL text (`sql`), and binary COPY, written and read (`copy`, `output`)."""
