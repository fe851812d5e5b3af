"""The way of the data, from the bytes of a source to one transaction of the store; one `Pipeline` a group.

    bytes -> source -> gather -> intake -> assembly -> closed blocks -> backlog -> committer -> store (one transaction)
                                   |           |                         |   ^          |           |
                                   v           |                         v   |          v           |
                              intake's log     |                        journal    dead letters     |
                                   |           |                           |            |           |
                                   +------> receipts <----- spooled -------+            |           |
                                 received      ^                                        |           |
                                               +----------- settled <-------------------+-----------+
    source <- acknowledged <- receipts

In come blocks: many readings of one group as one structured array. Out go batches, each one transaction, and to the
source what may be acknowledged. Every closed block goes to the journal, and stays in memory beside it as long as there
is room; the backlog owns both, and hands the oldest blocks to the committer. What the store rejects for good is set
aside in the dead letters. A reading is settled once it is stored, set aside, or refused for a named reason.

Read in this order:

- `gather`: the bytes of many connections become one block.
- `intake`: where sources put blocks in, before the database has answered too; what has to survive before its trigger
  closes is in the `intake_log`.
- `assembly`: blocks of readings in, closed blocks out; `receipts` knows which readings each connection still waits for.
- `closed_blocks`: how they are taken apart and put together.
- `backlog`: closed blocks in order, in memory and in the `journal`, which writes, syncs and reads in its own thread.
- `committer`: batches, attempts, and what to do when the store rejects something or has lost it; its `placer` asks the
  ledger of the database where late readings go that assembly remembers no more.
- `dead_letters`: what was rejected, on disk with its reason, until it is retried or discarded: `letters_on_request`.
- `instruments`: beside the way: which instruments are missing, late, silent or out of step.
- `recovery`: what is taken over from the process before: history, position, journal, dead letters.
- `pipeline`: joins them, as `construction` makes them; its `closing_timer` closes what stays incomplete. `figures` is
  what it reports of itself, with its `losses`; `announcements` is what an operator reads of it.
"""
