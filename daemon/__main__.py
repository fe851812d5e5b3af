"""`python -m daemon`: the command line, where the `triggerlog` script is not on the PATH."""

from daemon.tools.cli import main

main()
