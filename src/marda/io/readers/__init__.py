"""One reader per kind of file: a path and a request in, tables out."""
