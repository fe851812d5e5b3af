"""Where readings go."""

from typing import Literal

from pydantic import Field, field_validator, model_validator

from schemas.batch import Durability, Layout
from schemas.checking.dsn import EXAMPLES, Backend, backend_of, wrong_dsn
from schemas.checking.problems import refuse, wrong
from schemas.config.section import Name, Section


class DatabaseConfig(Section):
    """Where readings go."""

    dsn: str | None = Field(
        default=None,
        description=f"{EXAMPLES}. Without it an embedded PostgreSQL runs under `state_dir`; for root, where the "
        "account that runs it cannot pass the folders above that, under `/var/lib/triggerlog-postgresql`, with a link.",
    )
    password_env: str | None = Field(default=None, description="Environment variable that holds the DSN's password.")
    password_file: str | None = Field(
        default=None,
        description="File that holds the DSN's password (first line), or `credential:NAME` for what systemd hands over "
        "by `LoadCredential` (by hand: `/etc/credstore/NAME`).",
    )
    schema_name: Name = Field(
        default="triggerlog",
        alias="schema",
        description="Schema the tables live in; in MariaDB and MongoDB, the database.",
    )
    layout: Layout = Field(
        default=Layout.ROWS, description="`rows`: a row a reading; `arrays`, and in MongoDB both: a row a trigger."
    )
    durability: Durability = Field(
        default=Durability.SYNC,
        description="`sync`: a commit survives a crash of the server; `async`: the server may lose its last moments.",
    )
    partition: Literal["hour", "day", "month"] = Field(
        default="day",
        description="Stretch of time a partition of a table holds; in MongoDB, what retention drops at once. After a "
        "change the partitions that are there stay, and new ones begin where these end: `check-config` says when.",
    )
    partitions_ahead: int = Field(default=2, ge=1, le=100, description="Partitions made before they are needed.")
    command_timeout_s: float = Field(
        default=30.0, gt=0, le=3600, description="A transaction that takes longer is given up and tried again."
    )

    @property
    def backend(self) -> Backend:
        """Which database it is."""
        return backend_of(self.dsn)

    @field_validator("dsn")
    @classmethod
    def _known_scheme(cls, dsn: str | None) -> str | None:
        if dsn is not None:
            refuse(wrong_dsn(dsn))
        return dsn

    @model_validator(mode="after")
    def _one_password(self) -> "DatabaseConfig":
        given = [key for key in ("password_env", "password_file") if getattr(self, key) is not None]
        if len(given) == 2:
            refuse([wrong("`password_env` is given too", "give one of them, not both", "password_file")])
        if given and self.dsn is None:
            fix = "add the `dsn` it is for, or take it out: the embedded PostgreSQL has no password"
            refuse([wrong("a password without a `dsn`", fix, given[0])])
        return self
