"""The model that every section of the configuration is; in a module of its own, as `schemas.visits` has one, too."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the file: unknown keys are refused, and a refused value is never shown: it may be a password."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False)
