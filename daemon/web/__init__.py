"""What the API and the page have in common where they listen: TLS, limits, and who gets in."""
