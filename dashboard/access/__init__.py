"""Who may see the page and give orders: the log-in (`login`), and which requests are refused (`callback_requests`)."""
