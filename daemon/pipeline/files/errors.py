"""Why a journal cannot be used, or takes nothing more."""

import errno

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class LogError(Exception):
    """The journal cannot be used; the message is one line: what is wrong, and what to do."""


class LogFull(Exception):
    """There is no room: the limit is reached, or the disk is full. What was to be appended is not in the journal."""
