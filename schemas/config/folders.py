"""Folders of channels: whether the daemon serves them, and how it reaches them."""

from pydantic import Field

from schemas.config.section import Name, Section


class FoldersConfig(Section):
    """Folders of channels: conditions by channel, in the database of `[database]`. Not for MongoDB."""

    serve: bool = Field(
        default=False, description="Whether the daemon serves folders: it makes their schema when it starts."
    )
    schema_name: Name = Field(
        default="triggerlog_folders",
        alias="schema",
        description="Schema the folders live in; in MariaDB, the database. It is in that of `database`.",
    )
    connections: int = Field(
        default=4,
        ge=1,
        le=64,
        description="Connections to the database, at most; further questions and insertions wait for their turn.",
    )
    timeout_s: float = Field(
        default=30.0,
        gt=0,
        le=3600,
        description="A question or an insertion that the database has not answered then is given up.",
    )
    answer_mib: float = Field(
        default=32.0,
        ge=0.1,
        le=1024,
        description="Intervals that the API gives in one answer, at most, in the size that they have as records; a "
        "question for more is refused.",
    )
