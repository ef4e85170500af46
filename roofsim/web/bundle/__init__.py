"""Make the page as static files: an archive of Python's side, the files of the page, and what holds them together."""
