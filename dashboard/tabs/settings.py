"""What the scripts of the page use from Python: limits, defaults, names and colours, which are written once."""

from typing import Any

import orjson

from dashboard import zone
from dashboard.access.login import ENDED
from dashboard.feed.frames import PATHS
from dashboard.feed.groups import SIDE_BY_SIDE_MOST
from dashboard.feed.history import GAP_S, HOUR_S, KEPT_S, LONG_BUCKET_S
from dashboard.tabs.figures import COLOURS
from dashboard.tabs.instruments.drawer import STATE_WORDS
from dashboard.tabs.page import BADGE, RANGES
from schemas.states import STATE_LETTERS


def settings() -> dict[str, Any]:
    """All of it, as `Settings` in tests/javascript/page.d.ts declares it."""
    return {
        "colours": COLOURS,
        "session_ended": ENDED,
        "buttons_most": SIDE_BY_SIDE_MOST,
        "history": {"hour_s": HOUR_S, "bucket_s": LONG_BUCKET_S, "kept_s": KEPT_S, "gap_s": GAP_S},
        "ranges_s": {name: width for name, _, width in RANGES},
        "paths": PATHS,
        "time_zone": zone.label(),
        "badge": BADGE,
        "states": {letter: _state(letter) for letter in STATE_LETTERS},
    }


def settings_element() -> str:
    """The HTML element that carries them; what is in it cannot end it."""
    text = orjson.dumps(settings()).decode().replace("<", "\\u003c")
    return f'<script type="application/json" id="settings">{text}</script>'


def _state(letter: str) -> dict[str, str]:
    """said, said_lost: a cell's accessible name with and without data, `{}` for the name of its instrument."""
    state = STATE_LETTERS[letter]
    glyph, words = STATE_WORDS[state]
    short = words.partition(":")[0]
    said = {"said": f"{{}}: {short}", "said_lost": f"{{}}: unknown, was {short}"}
    return {"name": state.value, "glyph": glyph, "words": short} | said
