"""The schema: tables, partitions and views as statements; created or checked (`create`), removed (`removal`)."""
