"""The listeners for people and programs: the control API and the page."""

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import PurePath
from typing import Self
from zoneinfo import available_timezones

from pydantic import Field, field_validator, model_validator

from schemas.checking.addresses import is_loopback, wrong_networks
from schemas.checking.problems import Problem, refuse, wrong
from schemas.config.section import Host, Port, Section

PAGE_TABS = ("live", "instruments", "reads", "interference", "visits", "conditions", "storage")
"""Names of the page's own tabs, in the order of the page."""

LEAST_PASSWORD = 8
"""Characters of the page's password, which is guessed at no more than once in two seconds."""


class Listener(Section):
    """A listener, with or without TLS."""

    host: Host = Field(default="127.0.0.1", description="Address to listen on; `0.0.0.0` for all.")
    port: Port = Field(default=0, description="Port to listen on; 0 takes a free one.")
    tls_certificate: str | None = Field(
        default=None, description="File with the certificate (PEM, with what leads to its authority): turns TLS on."
    )
    tls_key: str | None = Field(default=None, description="File with the certificate's private key (PEM).")
    trusted_proxies: tuple[str, ...] = Field(
        default=(),
        description="Addresses or networks of the reverse proxies whose `X-Forwarded-For` is believed, such as "
        "`127.0.0.1` or `10.1.0.0/24`; from all others, and when empty, the header is ignored. Limits of guesses and "
        "requests then count the addresses behind the proxy, not the proxy.",
    )

    @property
    def scheme(self) -> str:
        """Scheme of its URL."""
        return "https" if self.tls_certificate is not None else "http"

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches it."""
        return is_loopback(self.host)

    @field_validator("trusted_proxies")
    @classmethod
    def _networks(cls, proxies: tuple[str, ...]) -> tuple[str, ...]:
        refuse(wrong_networks(proxies))
        return proxies

    @model_validator(mode="after")
    def _both_or_none(self) -> Self:
        if (self.tls_certificate is None) != (self.tls_key is None):
            missing, given = ("tls_key", "tls_certificate") if self.tls_key is None else ("tls_certificate", "tls_key")
            refuse([wrong(f"`{given}` is given without it", f"give both, or remove `{given}`", missing)])
        return self


class ApiConfig(Listener):
    """The control API."""

    host: Host = Field(
        default="127.0.0.1",
        description="Address to listen on; `0.0.0.0` for all. On loopback anyone may read; elsewhere everything needs "
        "the token.",
    )
    port: Port = Field(default=8120, description="Port to listen on; 0 takes a free one.")
    token_env: str | None = Field(default=None, description="Environment variable that holds the API's token.")
    token_file: str | None = Field(
        default=None,
        description="File that holds the API's token (first line). Without either the daemon makes one: `api-token` in "
        "`state_dir`.",
    )

    @model_validator(mode="after")
    def _one_token(self) -> Self:
        refuse(_secret(self, "token", "everybody who reaches it could read"))
        return self


class DashboardConfig(Listener):
    """The page; a process of its own (`triggerlog dashboard FILE`)."""

    host: Host = Field(
        default="127.0.0.1", description="Address to listen on; `0.0.0.0` for all. Off loopback it needs a password."
    )
    port: Port = Field(default=8121, description="Port to listen on; 0 takes a free one.")
    password_env: str | None = Field(default=None, description="Environment variable that holds the page's password.")
    password_file: str | None = Field(default=None, description="File that holds the page's password (first line).")

    tabs: tuple[str, ...] = Field(
        default=(),
        description="Python files with tabs of your own ([own-tab.md](own-tab.md)), shown in this order after those of "
        "the page. The name of a file is the name of its tab in the address.",
    )

    time_zone: str = Field(
        default="UTC",
        description="Time zone in which the page shows times and takes those of marks: an IANA name such as "
        "`Europe/Berlin`. Addresses and the API keep their times since 1970 UTC.",
    )

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        refuse(wrong_time_zone(name))
        return name

    @field_validator("tabs")
    @classmethod
    def _tab_names(cls, tabs: tuple[str, ...]) -> tuple[str, ...]:
        refuse(wrong_tabs(tabs))
        return tabs

    @model_validator(mode="after")
    def _one_password(self) -> Self:
        refuse(_secret(self, "password", "everybody who reaches it could look on"))
        return self


def wrong_tabs(tabs: Sequence[str]) -> Iterator[Problem]:
    """A problem for each path that cannot be that of a tab's file."""
    names = [PurePath(tab).stem for tab in tabs]
    for i, (tab, name) in enumerate(zip(tabs, names, strict=True)):
        if PurePath(tab).suffix != ".py":
            yield wrong(f"{tab[:60]!r} is no Python file", "name one that ends in .py", f"[{i}]")
        elif not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,31}", name):
            fix = "name it with 1 to 32 letters, digits, `_` and `-`, a letter first"
            yield wrong(f"a tab cannot have the name {name[:60]!r}", fix, f"[{i}]")
        elif name in PAGE_TABS:
            yield wrong(f"the page has a tab {name!r} of its own", "give the file another name", f"[{i}]")
        elif name in names[:i]:
            yield wrong(f"another tab has the name {name!r}, too", "give each file its own name", f"[{i}]")


def wrong_time_zone(name: str) -> Iterator[Problem]:
    """A problem if it is the name of no time zone that a browser knows, too."""
    if name == "UTC":  # which needs no files of zones
        return
    # What a machine calls its own zone, and what stands for none.
    zones = available_timezones() - {"localtime", "Factory"}
    if name in zones:
        return
    if not zones:
        yield wrong("this machine has no time zones", "install its package tzdata, or give `UTC`")
        return
    # What is short is no place: of CEST the nearest name is EST, which is 7 hours off.
    near = None if re.fullmatch("[A-Z]{2,5}", name) else _nearest(name, zones)
    fix = f"did you mean `{near}`?" if near else "give a place by its IANA name, such as `Europe/Berlin`"
    yield wrong(f"{name[:60]!r} is no time zone", fix)


def _nearest(name: str, zones: set[str]) -> str | None:
    """Of all zones, by the whole name or by the city alone, whatever the case and spaces."""
    spoken = {zone.lower(): zone for zone in sorted(zones, reverse=True)}
    spoken |= {zone.rpartition("/")[2].lower(): zone for zone in sorted(zones) if "/" in zone} | spoken
    near = get_close_matches(name[:60].strip().replace(" ", "_").lower(), spoken, n=1, cutoff=0.6)
    return spoken[near[0]] if near else None


def _secret(listener: Listener, what: str, danger: str) -> Iterator[Problem]:
    env, file = f"{what}_env", f"{what}_file"
    given = [key for key in (env, file) if getattr(listener, key) is not None]
    if len(given) == 2:
        yield wrong(f"`{env}` is given too", "give one of them, not both", file)
    if not given and not listener.is_local:
        fix = f"name its {what} in `{file}` or `{env}`, or listen on 127.0.0.1"
        yield wrong(f"{listener.host} is reachable from other machines, and {danger}", fix, "host")
