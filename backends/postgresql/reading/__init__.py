"""Answers: questions for readings and ledger (`queries`), means (`figures`), and what the server does (`activity`)."""
