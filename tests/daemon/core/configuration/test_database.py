"""daemon.core.configuration.database: what a look at the readers' database tells."""

from pathlib import Path

from daemon.core.configuration import load_config
from daemon.core.configuration.database import look_at_readers, store_of
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
