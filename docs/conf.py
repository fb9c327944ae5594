"""Configuration of the documentation; it builds offline, and its pages fetch nothing."""

import configparser
from pathlib import Path

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

import imbfit

project = "imbfit"
author = "imbfit developers"
copyright = "2026, imbfit developers"
release = version = imbfit.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
    "sphinxcontrib.bibtex",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "changes", "examples"]
default_role = "code"

# -- API pages -------------------------------------------------------------------------------------
autosummary_generate = True
toc_object_entries_show_parents = "hide"
autodoc_typehints = "none"  # numpydoc sections tell more than the annotations do
numpydoc_show_class_members = False
# scikit-learn writes these, with references to its own pages
autodoc_default_options = {
    "exclude-members": "set_fit_request, set_partial_fit_request, set_score_request"
}
_rules = configparser.ConfigParser()
_rules.read(Path(__file__).parent.parent / "setup.cfg")
_rules = _rules["tool:numpydoc_validation"]
numpydoc_validation_checks = set(_rules["checks"].split(","))
numpydoc_validation_exclude = set(_rules["exclude"].split(","))

# -- literature and gallery ------------------------------------------------------------------------
bibtex_bibfiles = ["refs.bib"]
bibtex_default_style = "plain"
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "filename_pattern": r"/plot_",
    "write_computation_times": False,  # that page would fetch scripts
    "show_memory": False,
    "show_signature": False,
}

# -- pages -----------------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = f"imbfit {version}"
html_show_sourcelink = False
html_math_renderer = "mathml"
html_theme_options = {
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": False,
}
html_static_path = ["_static"]
html_css_files = ["pages.css"]
# Few pages: the bar at the top names them all, and code needs the width.
html_sidebars = {"**": []}


def _inline_math(translator, node):
    translator.body.append(_mathml(node, as_block=False))
    raise nodes.SkipNode


def _block_math(translator, node):
    translator.body.append(f"<p>{_mathml(node, as_block=True)}</p>\n")
    raise nodes.SkipNode


def _mathml(node, *, as_block):
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        logging.getLogger(__name__).warning("formula: %s", error, location=node)
        return ""


def _fill_changes(app, docname, source):
    """List the fragments of changes that wait for a release."""
    if docname == "changes":
        fragments = sorted(Path(app.srcdir, "changes").glob("+*.rst"))
        items = ["* " + " ".join(f.read_text(encoding="utf-8").split()) for f in fragments]
        source[0] = source[0].replace(".. unreleased", "\n".join(items) or "Nothing.")


def setup(app):
    """Add the list of changes and the formulas."""
    app.connect("source-read", _fill_changes)
    # browsers draw formulas themselves: the script that usually does it is fetched
    app.add_html_math_renderer(
        "mathml", inline_renderers=(_inline_math, None), block_renderers=(_block_math, None)
    )
    return {"parallel_read_safe": True}
