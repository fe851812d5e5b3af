"""What every store of folders of channels promises: `base`."""
