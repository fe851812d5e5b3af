"""Amounts that wait somewhere."""

from dataclasses import dataclass


@dataclass(kw_only=True)
class Amount:
    """An amount that waits somewhere."""

    blocks: int = 0
    triggers: int = 0
    readings: int = 0

    def change(self, triggers: int, readings: int, blocks: int) -> None:
        """Add, or take away what is negative."""
        self.triggers += triggers
        self.readings += readings
        self.blocks += blocks

    def plus(self, other: "Amount") -> "Amount":
        """Both together."""
        return Amount(
            blocks=self.blocks + other.blocks,
            triggers=self.triggers + other.triggers,
            readings=self.readings + other.readings,
        )
