"""The schema: created or checked (`create`), written down for an administrator (`script`), removed (`removal`)."""
