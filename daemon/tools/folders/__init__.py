"""What the commands `triggerlog folders ...` share: `options`, `listing` of intervals, and `files` with them."""
