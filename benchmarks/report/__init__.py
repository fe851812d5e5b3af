"""Reports: each benchmark turns its record into a `model.Report`, and `render` writes that as HTML or as Markdown."""
