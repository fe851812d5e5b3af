"""The commands of `triggerlog`, a module each; `daemon.cli` puts them together."""
