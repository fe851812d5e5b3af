"""What takes long in a store of visits: no outage, as long as the server answers another connection (decision 0065)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from backends.base import StoreError
from backends.ending import end_tasks

WhyEnd = Callable[[float | None, asyncio.Event], Awaitable[StoreError | None]]


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How patient a store of visits is, in seconds.

    answer_s: for connecting, and how long a statement takes before the server is asked whether it still answers, and
        from then on as often. Of a store that only reads: for each of its questions.
    statement_s: for a select or a transaction of a visit; None of a store that only reads.
    """

    answer_s: float
    statement_s: float | None

    @property
    def session_s(self) -> float:
        """For a select or a transaction, whoever asks."""
        return self.answer_s if self.statement_s is None else self.statement_s


@asynccontextmanager
async def watched(
    answer_s: float, timeout_s: float | None, why_end: WhyEnd, terminate: Callable[[], None] | None = None
) -> AsyncIterator[None]:
    """Look after what is done meanwhile, from the moment on in which it takes long: before, it costs a timer.

    Args:
        answer_s: after so long the server is asked, and from then on as often.
        timeout_s: the limit; None for none.
        why_end: asks over another connection; takes the limit where it is over, and None before, and ends the statement
            at the server then. Sets the event before it does: the statement fails by it. Gives why the statement is to
            be ended here.
        terminate: ends the connection: what is under way could otherwise wait for a server that does not answer.

    Raises:
        StoreError: what `why_end` gave.
    """
    loop = asyncio.get_running_loop()
    late_s = None if timeout_s is None else loop.time() + timeout_s
    watch: asyncio.Task[StoreError] | None = None
    ending, failed = asyncio.Event(), False

    async def look() -> StoreError:
        while True:
            is_late = late_s is not None and loop.time() >= late_s
            why = await why_end(timeout_s if is_late else None, ending)
            if why is not None:
                ending.set()
                if terminate is not None:
                    terminate()
                if not failed:
                    limit.reschedule(loop.time())
                return why
            left_s = answer_s if late_s is None or is_late else max(late_s - loop.time(), 0.0)
            await asyncio.sleep(min(answer_s, left_s))

    def begin() -> None:
        nonlocal watch
        watch = asyncio.create_task(look())

    timer = loop.call_later(answer_s if timeout_s is None else min(answer_s, timeout_s), begin)
    try:
        async with asyncio.timeout(None) as limit:
            yield
    except Exception as error:
        failed = True
        if watch is not None and ending.is_set():
            raise await watch from error
        raise
    finally:
        timer.cancel()
        if watch is not None:
            await end_tasks(watch)


def is_away(error: BaseException | None) -> bool:
    """Whether a server did not answer at all: any other answer is one, as that it has no connection left."""
    return error is not None and (isinstance(error, OSError) or is_away(error.__cause__))
