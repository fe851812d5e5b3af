"""Who may send, and what was turned away, for the sources that listen; in bounded memory whatever comes."""

from daemon.sources.limits.networks import Networks
from daemon.sources.limits.refusals import Refusals

__all__ = ["Networks", "Refusals"]
