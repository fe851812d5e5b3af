"""Alarms: what is wrong, as the status lists it, and what people order about it."""

from pydantic import Field, RootModel

from schemas.api.model import Model
from schemas.config.section import Section
from schemas.states import AlarmSeverity, Attention

SHELVED_MOST_S = 24 * 3600
"""A shelf always has an end: one without would be forgotten."""


class AlarmStatus(Model):
    """One alarm in force. It is shown in full unless somebody acknowledged it, or it is shelved."""

    key: str = Field(description="names it: the same cause has the same key")
    severity: AlarmSeverity
    text: str = Field(description="what is wrong")
    fix: str = Field(description="what to do")
    since_ns: int = Field(description="when it began, or was noticed")
    acknowledged_ns: int | None = Field(
        default=None, description="when somebody acknowledged it; null where nobody did"
    )
    shelved_until_ns: int | None = Field(default=None, description="until when it is shelved; null where it is not")

    @property
    def attention(self) -> Attention:
        """What people did about it."""
        if self.shelved_until_ns is not None:
            return Attention.SHELVED
        return Attention.NEW if self.acknowledged_ns is None else Attention.ACKNOWLEDGED


class Alarms(RootModel[list[AlarmStatus]]):
    """The alarms in force: those that nobody has dealt with first, of these the most severe."""


class AlarmKeys(Section):
    """Which alarms."""

    keys: tuple[str, ...] | None = Field(
        default=None, min_length=1, description="Keys of alarms in force; none is all."
    )


class AlarmKey(Section):
    """Which alarm."""

    key: str = Field(description="Key of an alarm in force.")


class Shelving(AlarmKey):
    """Which alarm is shelved, and for how long."""

    for_s: float = Field(gt=0, le=SHELVED_MOST_S, description="For how long, in seconds; a day at most.")
