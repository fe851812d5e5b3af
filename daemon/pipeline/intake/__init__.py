"""The intake of a group: where sources put readings in, before the database has answered too.

Every reading is kept in the log, and put into the pipeline as soon as that has all that came before. `intake` is what
sources see: subscribers are told what happens, `connections` has the columns of their acknowledgements, and `streams`
what the log has of each session. After a start, and where the pipeline begins again, `replay` reads what the log holds,
and puts it through assembly, as if its senders sent it again.
"""

from daemon.pipeline.intake.connections import Subscriber
from daemon.pipeline.intake.intake import Intake
from daemon.pipeline.intake.opening import open_intake

__all__ = ["Intake", "Subscriber", "open_intake"]
