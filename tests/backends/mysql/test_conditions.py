"""Conditions in a MariaDB that is started again."""

from pathlib import Path

from backends.mysql.conditions import MysqlConditionsStore, open_conditions_store
from backends.throwaway.mariadb import ThrowawayMariadb
from schemas.config import DatabaseConfig
from tests.support.conditions import columns, held, new, tag_with
from tests.support.servers import installed


async def test_a_server_that_starts_again_gives_no_id_of_many_once_more(state_dir: Path) -> None:
    server = ThrowawayMariadb(state_dir)
    try:
        with installed():
            dsn = server.start()
        store = _opened(dsn, state_dir)
        await store.create()
        (name,) = await tag_with(store, "a", "bpm")
        await store.insert({name: columns(new(f"x{k}", k) for k in range(100))})
        known = {each.id for each in await held(store, name)}
        await store.close()
        server.stop()
        store = _opened(server.start(), state_dir)
        free = await store.add_interval(new("free", 500))
        assert free.id > max(known)
        await store.close()
    finally:
        server.stop()


def _opened(dsn: str, state_dir: Path) -> MysqlConditionsStore:
    return open_conditions_store(DatabaseConfig(dsn=dsn), schema="conditions", state_dir=state_dir)
