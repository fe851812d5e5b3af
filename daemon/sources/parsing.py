"""Parsing: what a sender wrote is its own fault, whatever it is, and never ends the daemon."""

import logging
from collections.abc import Callable
from typing import TypeVar

from schemas.wire import ErrorCode, ProtocolError

T = TypeVar("T")
Written = TypeVar("Written", bytes, memoryview)

log = logging.getLogger(__name__)


def parsed(parse: Callable[[Written], T], written: Written, code: ErrorCode) -> T:
    """Parse a message. code: of the refusal where the parser itself has a defect.

    Raises:
        ProtocolError: it cannot be understood.
    """
    try:
        return parse(written)
    except ProtocolError:
        raise
    except Exception as error:
        log.debug("%s failed", parse.__name__, exc_info=True)
        raise ProtocolError(code, f"it cannot be read ({type(error).__name__}); see the protocol") from error
