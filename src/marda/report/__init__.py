"""Results → one self-contained HTML page, for `adapt`, `compare`, `demo` and `reproduce`.

Each page has a module with one function, which takes what the adaptation or the benchmarks return
and gives the text of the page. Charts are drawn here too: a page needs no other library.
"""
