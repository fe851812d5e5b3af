"""`triggerlog conditions`: calibrations and settings by global tag."""

import typer

from daemon.tools.commands import conditions_files, conditions_look, conditions_orders, conditions_serve

app = typer.Typer(
    name="conditions",
    help="Calibrations and settings by global tag: serve them, look at them, change them.",
    no_args_is_help=True,
    add_completion=False,
)
for commands in (conditions_look, conditions_orders, conditions_files):
    app.add_typer(commands.app)
app.command("serve", epilog=conditions_serve.EPILOG)(conditions_serve.serve)


@app.callback()
def _group() -> None:
    """Conditions by global tag: calibrations and settings, and what is valid when; serve them to programs."""
