"""What all answers share."""

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """An answer, or a part of one: it does not change, and holds no field that is not declared."""

    model_config = ConfigDict(frozen=True, extra="forbid")
