"""How often tests of visits kill: a few times in the whole suite, for want of time, or as TRIGGERLOG_KILLS says."""

import os

THOROUGH = "TRIGGERLOG_KILLS" in os.environ
"""Whether every database is tried in every way."""
KILLS = int(os.environ.get("TRIGGERLOG_KILLS") or 4)
