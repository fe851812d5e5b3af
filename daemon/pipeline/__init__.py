"""The way of the data, from the bytes of a source to one transaction of the store; one `Pipeline` a group.

    bytes -> source -> gather -> intake -> assembly -> closed blocks -> backlog -> committer -> store (one transaction)
                                   |          ^                                        |            |
                                   v          |                                        v            |
                                  log --------+                                  dead letters       |
                                   |       replay                                      |            |
                    received <-----+                        committed <----------------+------------+
    source <- acknowledged <- receipts

In come blocks: many readings of one group as one structured array. Each is kept in the log until the database has it;
the log is the one place on the disk where readings wait. Out go batches, each one transaction with the position, and to
the source what may be acknowledged. What the store rejects for good is set aside in the dead letters. A reading is
settled once it is stored, set aside, or refused for a named reason.

There is one way to recover: the pipeline begins with what the database has (its newest ledger rows, and the sessions
beside the position), and reads the log. That is done at each start, and again where the database lost what it had
acknowledged, or memory had no room for what closed during an outage: `following`.

Read in this order:

- `gather`: the bytes of many connections become one block.
- `intake`: where sources put blocks in, before the database has answered too; it keeps them in the `log`, and
  puts through the pipeline what that held.
- `assembly`: blocks of readings in, closed blocks out; `receipts` knows which readings each connection still waits for.
- `closed_blocks`: how they are taken apart and put together.
- `backlog`: closed blocks in order, in memory.
- `committer`: batches, attempts, and what to do when the store rejects something; its `placer` asks the ledger of the
  database where late readings go that assembly remembers no more.
- `dead_letters`: what was rejected, on disk with its reason, until it is retried or discarded: `letters_on_request`.
- `instruments`: beside the way: which instruments are missing, late, silent or out of step.
- `recovery`: what is taken over from the process before: what the database has, and the dead letters.
- `pipeline`: joins them, as `construction` makes them; its `closing_timer` closes what stays incomplete. `figures` is
  what it reports of itself, with its `losses`; `announcements` is what an operator reads of it.
"""
