"""What of a workload may ask; a message to its process."""

from daemon.workloads.frame.messages import Message


class Admission(Message):
    """So many clients may ask, each for this share of its time (above 0, up to 1)."""

    clients: int
    share: float = 1.0
