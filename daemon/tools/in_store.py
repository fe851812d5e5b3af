"""What a command asks the database of a configuration, which a daemon may be writing to meanwhile."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from backends.base import Store, StoreError
from daemon.core.configuration import LoadedConfig
from daemon.core.configuration.database import in_its_field, store_of
from daemon.core.outcome import CommandFailed

A = TypeVar("A")


async def asked(loaded: LoadedConfig, ask: Callable[[Store], Awaitable[A]]) -> A:
    """Ask a store that is not opened.

    Raises:
        CommandFailed: it does not answer, or lacks what a daemon makes.
    """
    store = store_of(loaded)
    try:
        missing = await store.check()
        if missing:
            lacks = f"the database lacks {', '.join(missing)}"
            raise CommandFailed(f"{lacks}; start the daemon, or run what `triggerlog schema` prints, first")
        return await ask(store)
    except StoreError as error:
        raise CommandFailed(in_its_field(error, loaded.config)) from None
    finally:
        await store.close()
