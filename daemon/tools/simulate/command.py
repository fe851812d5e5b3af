"""`triggerlog simulate`: options in, `SimulateSettings` out; prints the report."""

import ssl
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Literal

import typer

from daemon.client.sender import SenderError
from daemon.core.configuration import load_config
from daemon.core.outcome import CommandFailed, examples
from daemon.tools.options import AsJson
from daemon.tools.simulate import SettingsError, SimulateReport, SimulateSettings, Step, run_simulate
from daemon.web.tls import client_context, own_certificate
from schemas.config import Config
from schemas.wire import Ack, ProtocolError

EPILOG = examples(
    "triggerlog simulate --rate 10",
    "triggerlog simulate --rate 100 --connections each --jitter-ms 5 --missing 0.02 --duplicated 0.01 --late 0.01",
    "triggerlog simulate --protocol udp beam.toml --triggers 1000",
    "triggerlog simulate --slip 7:-1@5 --clock-step 9:37@8",
    "triggerlog simulate --rate 0 --triggers 100000 --json",
)

_Defaults = SimulateSettings
_Fraction = {"min": 0, "max": 1}
FAULTS = "Faults"
OPTIONS = {"groups": "group", "slips": "slip", "clock_steps": "clock-step"}
"""Settings whose option has another name."""


def simulate(
    context: typer.Context,
    *,
    host: Annotated[
        str | None,
        typer.Option(help="Address of the daemon's source.", show_default=f"that of --config, or {_Defaults.host}"),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65_535, help="Its port.", show_default=f"that of --config, or {_Defaults.port}"),
    ] = None,
    protocol: Annotated[Literal["tcp", "udp"], typer.Option(help="Protocol of the source.")] = "tcp",
    ack: Annotated[
        Literal["committed", "spooled", "received"],
        typer.Option(
            help="Acknowledge readings once they are in the database, or once they are on the daemon's disk; `spooled`"
            " means `received`."
        ),
    ] = "committed",
    sessions: Annotated[
        bool,
        typer.Option(help="Send in sessions, and go on after a loss of the connection. Without, a loss is the end."),
    ] = _Defaults.sessions,
    tls: Annotated[bool, typer.Option("--tls", help="Use TLS; a source with a certificate requires it.")] = False,
    ca: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Authority that signed the daemon's certificate, with --tls.")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate to show to the daemon, with --tls.")
    ] = None,
    key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Key of --certificate.", show_default="the file of --certificate"),
    ] = None,
    group: Annotated[
        list[str] | None,
        typer.Option(help="Group to simulate, several times for several.", show_default="bpm, or all of --config"),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The daemon's configuration: where it listens; needed over UDP, for the layout."
        ),
    ] = None,
    rate: Annotated[float, typer.Option(min=0, help="Triggers a second; 0 is as fast as possible.")] = _Defaults.rate,
    triggers: Annotated[int | None, typer.Option(min=1, help="End after so many.", show_default="never")] = None,
    duration_s: Annotated[float | None, typer.Option(help="End after so long.", show_default="never")] = None,
    connections: Annotated[
        str, typer.Option(metavar="N|each", help="Connections a group; `each` is one an instrument.")
    ] = "1",
    seed: Annotated[int, typer.Option(min=0, help="Same seed: same readings, same faults.")] = _Defaults.seed,
    first_trigger: Annotated[int, typer.Option(min=0, help="Number of the first.")] = _Defaults.first_trigger,
    epoch: Annotated[
        int,
        typer.Option(
            min=0,
            help="How often the simulated timing system was restarted, sent with each reading. 0 is unknown: then the "
            "daemon finds out by the clocks when numbers begin again. With --restart-after it grows by 1 each time.",
        ),
    ] = _Defaults.epoch,
    account: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write exactly what was sent and left out (.npz).")
    ] = None,
    as_json: AsJson = False,
    finish_timeout_s: Annotated[
        float, typer.Option(help="How long to wait for the last acknowledgements.")
    ] = _Defaults.finish_timeout_s,
    buffer_mib: Annotated[float, typer.Option(help="How much may wait for acknowledgements.")] = _Defaults.buffer_mib,
    datagram_bytes: Annotated[int, typer.Option(help="Most bytes of a datagram (UDP).")] = _Defaults.datagram_bytes,
    jitter_ms: Annotated[
        float, typer.Option(min=0, help="Readings are up to this late after their trigger.", rich_help_panel=FAULTS)
    ] = 0,
    missing: Annotated[float, typer.Option(**_Fraction, help="Fraction not sent.", rich_help_panel=FAULTS)] = 0,
    late: Annotated[
        float, typer.Option(**_Fraction, help="Fraction sent --late-by-ms after their trigger.", rich_help_panel=FAULTS)
    ] = 0,
    late_by_ms: Annotated[
        float, typer.Option(min=0, help="How late those are.", rich_help_panel=FAULTS)
    ] = _Defaults.late_by_ms,
    duplicated: Annotated[
        float,
        typer.Option(
            **_Fraction,
            help="Fraction sent twice. In a session the daemon sets the second aside, as it has a number of its own; "
            "with --no-sessions it is a duplicate.",
            rich_help_panel=FAULTS,
        ),
    ] = 0,
    out_of_order: Annotated[
        float, typer.Option(**_Fraction, help="Fraction sent after the one that follows.", rich_help_panel=FAULTS)
    ] = 0,
    stuck: Annotated[
        int | None, typer.Option(help="Instrument whose trigger number gets stuck.", rich_help_panel=FAULTS)
    ] = None,
    stuck_from: Annotated[int, typer.Option(help="From which trigger on.", rich_help_panel=FAULTS)] = 0,
    slip: Annotated[
        list[str] | None,
        typer.Option(
            metavar="INSTRUMENT:TRIGGERS@SECONDS",
            help="Its trigger numbers are off from then on, like 7:-1@5.",
            rich_help_panel=FAULTS,
        ),
    ] = None,
    clock_step: Annotated[
        list[str] | None,
        typer.Option(
            metavar="INSTRUMENT:MS@SECONDS",
            help="Its clock is off from then on, like 7:37.5@5.",
            rich_help_panel=FAULTS,
        ),
    ] = None,
    restart_after: Annotated[
        int | None, typer.Option(min=1, help="Numbers start from 1 again after so many.", rich_help_panel=FAULTS)
    ] = None,
    restart_pause_ms: Annotated[float, typer.Option(min=0, help="Pause before they do.", rich_help_panel=FAULTS)] = 0,
) -> None:
    """Send readings of simulated instruments to a daemon; report what was acknowledged."""
    loaded = None if config is None else load_config(config).config
    layouts = () if loaded is None else tuple(section.group() for section in loaded.groups)
    # An option with the name of a setting is passed on as it is.
    names = [field.name for field in fields(SimulateSettings) if field.name in context.params]
    try:
        chosen = {
            **{name: context.params[name] for name in names},
            **_address(loaded, protocol, host, port),
            "ack": Ack(ack),
            "groups": tuple(group or [layout.name for layout in layouts] or _Defaults.groups),
            "layouts": layouts,
            "connections": _connections(connections),
            "slips": tuple(Step.parse(text, "slips") for text in slip or ()),
            "clock_steps": tuple(Step.parse(text, "clock_steps") for text in clock_step or ()),
            "tls": _tls(tls, ca, certificate, key),
        }
        settings = SimulateSettings(**chosen)
    except SettingsError as error:
        raise _refused(error) from None
    _report(_simulated(settings), as_json)


def _address(config: Config | None, protocol: str, host: str | None, port: int | None) -> dict[str, str | int]:
    """Where to send: as given on the command line, or where the daemon of the configuration listens."""
    sources = () if config is None else config.sources
    found = next((each.listening for each in sources if each.kind == protocol and each.listening is not None), None)
    if found is not None:
        # A daemon that listens everywhere is reached on this machine.
        host = host or ("127.0.0.1" if found.host in ("0.0.0.0", "::") else found.host)  # noqa: S104
        port = port or found.port
    return {"host": host or _Defaults.host, "port": port or _Defaults.port}


def _tls(wanted: bool, ca: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    if not wanted:
        for name, path in (("--ca", ca), ("--certificate", certificate), ("--key", key)):
            if path is not None:
                raise CommandFailed(f"{name} needs --tls; add it")
        return None
    if key is not None and certificate is None:
        raise CommandFailed("--key needs --certificate; give both")
    context = client_context(ca)
    if certificate is not None:
        own_certificate(context, certificate, key or certificate, names=("--certificate", "--key"))
    return context


def _connections(text: str) -> int | Literal["each"]:
    if text == "each":
        return "each"
    if not text.isdecimal() or int(text) < 1:
        raise CommandFailed(f"--connections: {text!r} is not a number of connections; give 1 or more, or `each`")
    return int(text)


def _refused(error: SettingsError) -> CommandFailed:
    if error.setting == "layouts":
        return CommandFailed("--config: give the daemon's configuration, as over UDP the daemon does not answer")
    option = OPTIONS.get(error.setting, error.setting.replace("_", "-"))
    return CommandFailed(f"--{option}: {error.fix}")


def _simulated(settings: SimulateSettings) -> SimulateReport:
    try:
        return run_simulate(settings, say=lambda line: typer.echo(f"triggerlog: {line}", err=True))
    except SettingsError as error:
        raise _refused(error) from None
    except (SenderError, ProtocolError) as error:
        raise CommandFailed(str(error)) from None


def _report(report: SimulateReport, as_json: bool) -> None:
    typer.echo(report.to_json() if as_json else report.render())
    if not report.settled:
        raise typer.Exit(1)
