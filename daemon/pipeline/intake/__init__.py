"""The intake of a group: where sources put readings in, before the database has answered too.

What has to survive before its trigger closes is kept in the intake's log: readings for which a sender wants `received`,
and all of them while the database has not answered since the start. `intake` is what sources see; after a start,
`replay` puts what the log holds through assembly, as if its senders sent it again.
"""

from daemon.pipeline.intake.intake import Intake, Subscriber
from daemon.pipeline.intake.opening import open_intake

__all__ = ["Intake", "Subscriber", "open_intake"]
