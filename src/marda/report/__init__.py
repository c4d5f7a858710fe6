"""Results → one self-contained HTML page, for `adapt`, `compare`, `demo` and `reproduce`.

Each page has a module with one function, which takes what the adaptation or the benchmarks return
and gives the text of the page. Charts need an extra, which `require` asks for.
"""

from marda.report.page import require

__all__ = ["require"]
