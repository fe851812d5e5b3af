"""Answers: the dispatcher (`queries`), then the questions with more to them, and what the server does (`activity`)."""
