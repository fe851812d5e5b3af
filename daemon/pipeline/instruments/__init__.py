"""The instruments of a group, watched: fed with what assembly closes, and asked a few times a second how each is.

`watch` tells who is missing, late or silent; `desync` tells whose trigger numbers or clock are out of step with those
of the others; `instruments` joins the two, and reports what is new.
"""

from daemon.pipeline.instruments.desync import Finding
from daemon.pipeline.instruments.instruments import InstrumentFigures, Instruments

__all__ = ["Finding", "InstrumentFigures", "Instruments"]
