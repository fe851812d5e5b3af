"""daemon.core.configuration.database: what a look at the readers' database tells."""

from pathlib import Path

from daemon.core.configuration import load_config
from daemon.core.configuration.database import conditions_store_of, look_at_calibrations, look_at_readers, store_of
from schemas.conditions.intervals import TagStatus
from tests.support.processes import free_port

GROUP = '[[groups]]\nname = "bpm"\ncount = 3\nchannels = [{ name = "x" }]\n'


async def said(folder: Path, dsn: str, schema: str, readers: str) -> list[str]:
    file = folder / "beam.toml"
    file.write_text(f'{GROUP}[database]\ndsn = "{dsn}"\nschema = "{schema}"\n[readers]\ndsn = "{readers}"\n')
    return [str(problem) for problem in await look_at_readers(load_config(file))]


async def test_a_readers_database_is_asked_for_what_readers_will_ask(
    tmp_path: Path, postgresql_dsn: str, schema: str
) -> None:
    (empty,) = await said(tmp_path, postgresql_dsn, schema, postgresql_dsn)
    assert empty.startswith("readers.dsn: ")
    assert empty.endswith(f"see that it holds schema {schema} as it is written, and that its user may read that")
    store = store_of(load_config(tmp_path / "beam.toml"))
    await store.open()
    await store.close()
    assert await said(tmp_path, postgresql_dsn, schema, postgresql_dsn) == []
    nobody = f"postgresql://reader@127.0.0.1:{free_port()}/beam"
    (away,) = await said(tmp_path, postgresql_dsn, schema, nobody)
    assert away.startswith(f"readers.dsn: {nobody} is not reachable: ")
    assert away.endswith("; readers would fail until it does")


async def test_the_database_is_asked_for_the_lists_that_readings_are_calibrated_by(
    tmp_path: Path, postgresql_dsn: str, schema: str
) -> None:
    channels = ", ".join(f'{{ name = "{name}" }}' for name in ("top_in", "bot_in", "bot_out", "top_out"))
    groups = "".join(
        f'[[groups]]\nname = "{name}"\ncount = 3\nchannels = [{channels}]\n{more}'
        for name, more in (("bpm", ""), ("linac", 'payload_type = "linac bpm"\n'))
    )
    file = tmp_path / "beam.toml"

    async def told(dsn: str = postgresql_dsn) -> list[str]:
        conditions = f'[conditions]\nschema = "{schema}_c"\ntag = "summer"\npayloads = "payloads"\n'
        file.write_text(f'{groups}{GROUP.replace("bpm", "toroid")}{conditions}[database]\ndsn = "{dsn}"\n')
        return [str(problem) for problem in await look_at_calibrations(load_config(file))]

    (lacking,) = await told()
    assert lacking.startswith(f"conditions.schema: {schema}_c cannot be read (")
    store = conditions_store_of(load_config(file), connections=1)
    await store.create()
    assert await told() == ["conditions.tag: summer is not there; name one that is, or add it first"]
    await store.add_tag("summer", TagStatus.UNLOCKED)
    lists = "groups[{}].payload_type: 'summer' has no list of type '{}'; attach one to it"
    assert await told() == [lists.format(0, "bpm"), lists.format(1, "linac bpm")]
    for type_ in ("bpm", "linac bpm"):
        await store.add_type(type_)
        await store.attach_list("summer", (await store.add_list(type_)).name)
    assert await told() == []
    await store.drop()
    await store.close()
    assert await told(f"postgresql://nobody@127.0.0.1:{free_port()}/beam") == []
