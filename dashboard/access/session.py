"""Who is logged in: a cookie that this process has signed, and that nothing need be kept for."""

import hmac
import secrets
import time

LASTS_S = 12 * 3600
"""A shift and its handover."""


class Sessions:
    """Issues sessions and knows its own again; a restart of the page ends them all."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._ended: dict[str, float] = {}
        """Those logged out, until they would have ended by themselves."""

    def begin(self, now_s: float | None = None) -> str:
        """A new session, as text for a cookie."""
        until = int((time.time() if now_s is None else now_s) + LASTS_S)
        said = f"{until}.{secrets.token_urlsafe(12)}"
        return f"{said}.{self._signed(said)}"

    def is_valid(self, session: str | None, now_s: float | None = None) -> bool:
        """Whether it is ours, not over and not ended."""
        said, _, signature = (session or "").rpartition(".")
        if not said or not hmac.compare_digest(signature.encode(), self._signed(said).encode()):
            return False
        return _until(said) > (time.time() if now_s is None else now_s) and said not in self._ended

    def end(self, session: str) -> None:
        """End it before its time; one that is not ours is none of our business."""
        now_s = time.time()
        if self.is_valid(session, now_s):
            said = session.rpartition(".")[0]
            self._ended = {kept: until for kept, until in self._ended.items() if until > now_s} | {said: _until(said)}

    def _signed(self, said: str) -> str:
        return hmac.digest(self._key, said.encode(), "sha256").hex()


def _until(said: str) -> float:
    return float(said.partition(".")[0])
