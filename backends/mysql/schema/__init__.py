"""The schema: tables, views and partitions as statements; created, checked or removed (`create`)."""
