"""Sphinx configuration."""

import sys
from importlib.util import find_spec
from pathlib import Path

import marda

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "_ext"))

project = "marda"
copyright = "The marda developers"
version = release = marda.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    # Of the extra `docs`: formulas show without a network.
    *(["sphinx-mathjax-offline"] if find_spec("sphinx-mathjax-offline") else []),
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
myst_enable_extensions = ["colon_fence", "dollarmath", "amsmath"]
myst_heading_anchors = 3
html_theme = "furo"
html_title = f"marda {release}"
html_static_path = ["_static"]
html_css_files = ["marda.css"]
templates_path = ["_templates"]
exclude_patterns = [
    "_build",
    "_templates",
    "sg_execution_times.rst",
    "auto_examples/**/*.ipynb",
    "auto_examples/sg_execution_times.rst",
]
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
autodoc_typehints = "none"
autosummary_generate = True
autosummary_ignore_module_all = False


sphinx_gallery_conf = {
    "examples_dirs": [str(HERE.parent / "examples")],
    "gallery_dirs": ["auto_examples"],
    "within_subsection_order": "gallery.Order",
    "reset_modules": ("gallery.reset",),
    "image_scrapers": ("matplotlib",),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "min_reported_time": 30,
    "plot_gallery": "True",
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
}
