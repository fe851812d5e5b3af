"""The commands of `triggerlog`, a module each; `daemon.tools.cli` puts them together."""
