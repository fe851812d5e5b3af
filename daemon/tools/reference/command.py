"""`triggerlog config-reference`: prints every section and key of a configuration."""

import typer

from daemon.core.outcome import examples
from daemon.tools.reference.markdown import reference

EPILOG = examples("triggerlog config-reference | less")


def config_reference() -> None:
    """Print the reference of the configuration as Markdown."""
    typer.echo(reference(), nl=False)
