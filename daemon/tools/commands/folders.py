"""`triggerlog folders`: conditions by channel."""

import typer

from daemon.tools.commands import folders_look, folders_orders

app = typer.Typer(
    name="folders",
    help="Values that hold for intervals of time: what held when, and what changed.",
    no_args_is_help=True,
    add_completion=False,
)
for commands in (folders_look, folders_orders):
    app.add_typer(commands.app)


@app.callback()
def _group() -> None:
    """Folders of channels: values that hold for intervals of time; what held when, and what changed."""
