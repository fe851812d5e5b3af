"""Where people and programs ask the daemon: the control API and the page."""

from pydantic import Field

from schemas.config.section import Port, Section


class ApiConfig(Section):
    """The control API."""

    host: str = Field(default="127.0.0.1", description="Address to listen on. Anyone who reaches it may read.")
    port: Port = Field(default=8120, description="Port to listen on; 0 takes a free one.")


class DashboardConfig(Section):
    """The page; a process of its own (`triggerlog dashboard`)."""

    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: Port = Field(default=8121, description="Port to listen on; 0 takes a free one.")
