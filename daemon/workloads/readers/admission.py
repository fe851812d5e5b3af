"""What of a workload may ask; a message to its process."""

from daemon.workloads.frame.messages import Message


class Admission(Message):
    """So many clients may ask, each for this share of its time (above 0, up to 1).

    stretch: the number of the stretch of time that is measured by itself, from the moment in which the process hears of
    it; 0 while none is.
    """

    clients: int
    share: float = 1.0
    stretch: int = 0
