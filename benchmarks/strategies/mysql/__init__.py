"""The counterparts of the paper's ways with MariaDB and MySQL, each with both settings of the log's flush."""

from benchmarks.strategies.mysql import insert_each_table, load_data, multi_row_insert
from benchmarks.strategies.strategy import Strategy, in_both_durabilities

STRATEGIES = in_both_durabilities(
    Strategy(
        slug="insert_each_table",
        title="120 tables, 120 INSERTs, one commit",
        write=insert_each_table.write,
    ),
    Strategy(
        slug="multi_row_insert",
        title="one table, one INSERT of 120 rows, one commit",
        write=multi_row_insert.write,
    ),
    Strategy(
        slug="load_data",
        title="one table, one LOAD DATA LOCAL, one commit",
        write=load_data.write,
    ),
    asynchronous="innodb_flush_log_at_trx_commit 2",
    note="Not crash safe: the log is written at every commit and flushed about once a second.",
)
