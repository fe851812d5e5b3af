"""The processes of the server: `messages` (what they report), `process` (one of them), `servers` (who runs them)."""
