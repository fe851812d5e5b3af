"""The command line `triggerlog`, and what only it uses.

`cli` lists the commands and imports the module of one when it is called. A command is a package with its options in
`command.py` (`simulate`, `drill`, `export`, `reconcile`, `dead_letters`, `install`, `reference`, `demo`), or one module
of `commands`. `options` has the options that several commands share, `console` what they print with.
"""
