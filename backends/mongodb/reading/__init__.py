"""Answers: what to look for (`documents`), a group that is asked (`group`), the dispatcher (`queries`), questions."""
