"""One table for all instruments, one LOAD DATA LOCAL and one commit a trigger, one connection (PyMySQL).

The counterpart of the paper's one COPY: a trigger is put together as text, a line a reading, and the server reads it as
a file. The driver opens that file by its name; this one is in memory (memfd_create(2)) and has none but the one under
/proc. The table has no index and no partitions, and nothing keeps account of what is missing.
"""

import os
import time
from contextlib import closing
from io import StringIO

from benchmarks.rounds.commits import Clock, Commits
from benchmarks.servers.mysql import connect
from benchmarks.strategies.mysql.multi_row_insert import create
from benchmarks.strategies.strategy import Triggers


def write(dsn: str, schema: str, triggers: Triggers, seconds: float) -> Commits:
    """Write triggers, round and round, for so many seconds."""
    file = os.memfd_create("trigger")
    try:
        with closing(connect(dsn, local_infile=True)) as connection, connection.cursor() as cursor:
            create(cursor, schema)
            statement = (
                f"LOAD DATA LOCAL INFILE '/proc/self/fd/{file}' INTO TABLE {schema}.instr0"
                " (instr, timestamp, top_in, bot_in, bot_out, top_out)"
            )
            clock = Clock(seconds)
            for ready, trigger in clock.feed(triggers):
                text = StringIO()
                for i, (top_in, bot_in, bot_out, top_out) in enumerate(trigger):
                    text.write(f"{i}\t{time.time()}\t{top_in}\t{bot_in}\t{bot_out}\t{top_out}\n")
                os.ftruncate(file, 0)
                os.pwrite(file, text.getvalue().encode(), 0)
                cursor.execute(statement)
                connection.commit()
                clock.committed(ready)
    finally:
        os.close(file)
    return clock.commits()
