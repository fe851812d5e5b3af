"""The configuration file on a command line: `--config FILE`, or an argument that ends with .toml."""

from collections.abc import Callable
from functools import partial
from typing import Any

OPTION = "--config"
ENDING = ".toml"


def take_files(command: Any) -> None:
    """Let a click command, and those below it, take `beam.toml` for `--config beam.toml`, wherever it stands."""
    if any(OPTION in each.opts for each in command.params):
        command.parse_args = partial(_parsed, command, command.parse_args)
        command.collect_usage_pieces = partial(_usage, command.collect_usage_pieces)
    for each in getattr(command, "commands", {}).values():
        take_files(each)


def _parsed(command: Any, parse: Callable[[Any, list[str]], list[str]], context: Any, given: list[str]) -> list[str]:
    return parse(context, named(command, given))


def _usage(pieces: Callable[[Any], list[str]], context: Any) -> list[str]:
    options, *arguments = pieces(context)
    return [options, f"[FILE{ENDING}]" if arguments else "[FILE]", *arguments]


def named(command: Any, arguments: list[str]) -> list[str]:
    """Put `--config` before the first argument that names a file of configuration.

    Where a command has no other argument, each is one, whatever its ending.
    """
    is_group = hasattr(command, "commands")
    takes_more = is_group or any(each.param_type_name == "argument" for each in command.params)
    valued = {name for each in command.params if not getattr(each, "is_flag", True) for name in each.opts}
    is_value = False
    for at, argument in enumerate(arguments):
        if argument == "--":
            break
        is_positional, is_value = not is_value and not argument.startswith("-"), argument in valued
        if is_positional and (argument.endswith(ENDING) or not takes_more):
            return [*arguments[:at], OPTION, *arguments[at:]]
        if is_positional and is_group:  # the name of a command, which has what follows
            break
    return arguments
