"""The intake of a group: where sources put readings in, before the database has answered too.

Every reading is kept in the log, and put into the pipeline as soon as that has all that came before. `intake` is what
sources see: a `subscriber` is told what happens, `columns` are the connections, and `streams` what the log has of each
session. After a start, and where the pipeline begins again, `catching_up` reads what the log holds, and `replay` puts
it through assembly, as if its senders sent it again.
"""

from daemon.pipeline.intake.intake import Intake
from daemon.pipeline.intake.opening import open_intake
from daemon.pipeline.intake.subscriber import Subscriber

__all__ = ["Intake", "Subscriber", "open_intake"]
