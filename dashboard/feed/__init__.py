"""What comes from the daemon and goes to the browsers.

`client` asks the daemon and follows its status; `hub` keeps what is known (`history`) and sends it to every browser as
`frames`, with `sentences` and the figures of all `groups` together; `relay` passes on what browsers ask for, once for
all of them.
"""
