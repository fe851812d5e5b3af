"""The command line `triggerlog`, and what only it uses.

`cli` lists the commands and imports the module of one when it is called. A command is a package with its options in
`command.py` (`backup`, `conditions`, `dead_letters`, `drill`, `export`, `folders`, `reconcile`, `simulate`), or a
module of `commands` or `workloads`. `options` has what several commands share: options, the connection to a daemon, the
print-out of an answer; `console` has what they print with.
"""
