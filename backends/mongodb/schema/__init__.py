"""The collections: created or checked (`create`), written down (`script`), removed (`removal`)."""
