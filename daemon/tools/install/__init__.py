"""`triggerlog install-units`: writes the systemd units of the folder `systemd` with the paths of this installation."""
