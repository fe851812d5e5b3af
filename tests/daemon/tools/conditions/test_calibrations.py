"""daemon.tools.conditions.calibrations, on a real database."""

from pathlib import Path

import pytest

from daemon.core.configuration import LoadedConfig, load_config
from daemon.core.configuration.database import conditions_store_of
from daemon.tools.conditions.calibrations import store_calibrations
from schemas.conditions.calibration import bpm_payload
from schemas.conditions.intervals import END, Key, TagStatus

CONFIGURATION = """
[[groups]]
name = "linac"
count = 3
payload_type = "linac_bpm"
channels = [{{ name = "top_in" }}, {{ name = "bot_in" }}, {{ name = "bot_out" }}, {{ name = "top_out" }}]

[database]
dsn = "{dsn}"

[conditions]
schema = "calibrations_of_its_own"
payloads = "payloads"
tag = "trial"
"""
STARTS = [Key(0, 0), Key(2, 50), Key(3, 0)]


@pytest.fixture
def loaded(tmp_path: Path, postgresql_dsn: str) -> LoadedConfig:
    file = tmp_path / "beam.toml"
    file.write_text(CONFIGURATION.format(dsn=postgresql_dsn))
    return load_config(file)


async def test_what_is_cut_short_is_completed_and_what_is_there_stays(loaded: LoadedConfig, tmp_path: Path) -> None:
    store = conditions_store_of(loaded, connections=1)
    try:
        await store.create()
        await store.add_type("linac_bpm")
        await store.add_tag("trial", TagStatus.UNLOCKED)
        for _ in range(2):
            await store_calibrations(loaded, STARTS)
        tag, lists = await store.tag("trial"), await store.tag_lists("trial")
        assert (tag.status, tag.lists, tag.intervals) == (TagStatus.LOCKED, 1, len(STARTS))
        stored = [each for each in await store.intervals(0, 100) if each.list == lists["linac_bpm"]]
        assert [(each.start, each.end) for each in stored] == list(zip(STARTS, [*STARTS[1:], END], strict=True))
        payloads = [bpm_payload((tmp_path / "payloads" / each.url).read_bytes()) for each in stored]
        assert all(
            [each.instrument for each in payload.instruments] == ["linac_000", "linac_001", "linac_002"]
            for payload in payloads
        )
        assert len({payload.model_dump_json() for payload in payloads}) == len(STARTS)
        # Somebody opens it to try something: the next start does not lock it again.
        await store.set_status("trial", TagStatus.UNLOCKED)
        await store_calibrations(loaded, STARTS)
        assert (await store.tag("trial")).status is TagStatus.UNLOCKED
    finally:
        await store.drop()
        await store.close()
