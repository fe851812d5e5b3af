"""The database as the daemon sees it: `watch` opens and asks it, `report` has what it answered, `growth` its size."""
