"""The descriptors of the sources: one for each section that a configuration may have, and what others take of them."""

from typing import get_args

import pytest

from daemon.core.configuration.reload import RELOADABLE
from daemon.core.monitoring.events import Events
from daemon.sources.base import Source
from daemon.sources.kinds import KINDS, make_source
from schemas.config import SOURCES, SourceSection
from tests.support.pipelines import logging_to_memory
from tests.support.readings import make_group

EXAMPLES = {"tcp": {"port": 0}, "udp": {"port": 0}, "simulated": {"group": "bpm", "rate": 100.0}}


def test_every_section_has_one_descriptor() -> None:
    kinds = {get_args(section.model_fields["kind"].annotation)[0]: section for section in SOURCES}
    assert {kind: descriptor.settings for kind, descriptor in KINDS.items()} == kinds


@pytest.mark.parametrize("section", SOURCES)
def test_what_a_section_calls_reloadable_is_a_field_that_reloads(section: type[SourceSection]) -> None:
    assert set(section.model_fields) >= section.RELOADABLE
    assert {f"sources[].{name}" for name in section.RELOADABLE} <= RELOADABLE


@pytest.mark.parametrize("kind", KINDS)
async def test_a_source_is_made_by_its_descriptor_and_its_status_has_its_metrics(kind: str) -> None:
    section = KINDS[kind].settings.model_validate({"kind": kind, **EXAMPLES[kind]})
    async with logging_to_memory(make_group()) as logger:
        source: Source = make_source(section, logger.intakes, Events())
        await source.start()
        try:
            status = source.status()
            assert status.kind == kind
            assert all(metric.value(status) >= 0 for metric in KINDS[kind].metrics)
        finally:
            await source.stop()
            await source.close()


def test_what_may_fall_is_no_counter() -> None:
    # A datagram that is counted as lost may come after all. Prometheus takes a counter that falls for one that began
    # again, and adds all of it.
    counters = {metric.name: metric.is_counter for metric in KINDS["udp"].metrics}
    assert counters == {"connections": False, "bytes": True, "lost_datagrams": False}
