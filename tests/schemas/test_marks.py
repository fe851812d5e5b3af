"""schemas.marks: which text a mark may have."""

from uuid import uuid4

import pytest
from pydantic import ValidationError

from schemas.marks import Mark


@pytest.mark.parametrize("text", ["10\u00a0kV", "vacuum \u26a0\ufe0f", "\U0001f468\u200d\U0001f52c was here", "Ω"])
def test_spaces_of_all_kinds_and_emoji_are_text(text: str) -> None:
    assert Mark(id=uuid4(), time_ns=0, text=text).text == text


@pytest.mark.parametrize("text", ["two\nlines", "a\x07", "\ud800", "two\u2028lines", "\u202ereversed", "\u00a0"])
def test_what_ends_a_line_or_turns_it_is_none(text: str) -> None:
    with pytest.raises(ValidationError, match=r"control characters|valid string"):
        Mark(id=uuid4(), time_ns=0, text=text)
