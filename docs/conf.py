"""The documentation: `make docs` builds it in docs/_build/html, with warnings as errors."""

import pathlib
import sys

import mmcopt

sys.path.insert(0, str(pathlib.Path(__file__).parent))

project = "mmcopt"
author = "the mmcopt authors"
version = release = mmcopt.__version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc", "mathml", "made_pages"]
exclude_patterns = ["_build", "notebooks"]
myst_enable_extensions = ["dollarmath"]
autodoc_typehints = "none"  # signatures have them
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
html_theme = "furo"
html_title = f"mmcopt {version}"
html_math_renderer = "mathml"
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["formulas.css"]
