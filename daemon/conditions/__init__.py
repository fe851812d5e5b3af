"""Conditions: the server that answers by the REST contract of the reference.

What comes into the server: requests of programs, and what a store of conditions holds. What goes out: answers, from
memory where that is known to be true, and otherwise from the database; orders go to the store. It runs in processes of
its own, so that it takes no time from the writing.

Read in this order: `contract` (the shapes of the reference), `content` (the arrays of one tag, and tags in memory),
`reads` (what is valid at a key, and whether memory is still true), `requests` (from HTTP to an answer), `process` (one
process of the server) with its `messages`, `servers` (who runs them, in a daemon and without one).
"""
