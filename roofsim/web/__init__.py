"""The page: questions as plain data, their answers as plain data and HTML, and the server that hands both to a browser."""
