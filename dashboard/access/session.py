"""Sessions: a cookie that this process has signed, so that no table of sessions is needed."""

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
        payload = f"{until}.{secrets.token_urlsafe(12)}"
        return f"{payload}.{self._signed(payload)}"

    def is_valid(self, session: str | None, now_s: float | None = None) -> bool:
        """Whether it is ours, not over and not ended."""
        payload, _, signature = (session or "").rpartition(".")
        if not payload or not hmac.compare_digest(signature.encode(), self._signed(payload).encode()):
            return False
        return _until(payload) > (time.time() if now_s is None else now_s) and payload not in self._ended

    def end(self, session: str) -> None:
        """End it before its time; one that is not ours is none of our business."""
        now_s = time.time()
        if self.is_valid(session, now_s):
            payload = session.rpartition(".")[0]
            self._ended = {ended: until for ended, until in self._ended.items() if until > now_s} | {
                payload: _until(payload)
            }

    def _signed(self, payload: str) -> str:
        return hmac.digest(self._key, payload.encode(), "sha256").hex()


def _until(payload: str) -> float:
    return float(payload.partition(".")[0])
