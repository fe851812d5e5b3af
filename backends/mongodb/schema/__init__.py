"""The collections: created or checked (`create`), views, written down (`script`), removed (`removal`)."""
