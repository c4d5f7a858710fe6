"""Sphinx configuration."""

import marda

project = "marda"
copyright = "The marda developers"
version = release = marda.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.mathjax", "numpydoc"]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = "marda"
exclude_patterns = ["_build"]
numpydoc_show_class_members = False
autodoc_typehints = "none"
suppress_warnings = ["myst.xref_missing"]
