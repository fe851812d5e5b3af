"""Notices that the process stood still, and says so."""

import asyncio

from daemon.core.monitoring.events import Events
from daemon.core.outside.clock import STANDSTILLS, TICK_S


async def notice_standstills(events: Events) -> None:
    """Look until cancelled."""
    with STANDSTILLS.noticed():
        while True:
            await asyncio.sleep(TICK_S)
            if stood_s := STANDSTILLS.take_s():
                events.warning(
                    f"this process stood still for {stood_s:.0f} s: it was stopped, its machine suspended, or all"
                    " processors were taken. Time-outs begin again; nothing of that time is an outage of the database"
                )
