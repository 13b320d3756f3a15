"""Formulas as MathML, which browsers draw by themselves: pages need no network and no script."""

from latex2mathml.converter import convert


def markup(latex, display):
    """A formula as MathML; `aligned` is known by its older name."""
    return convert(latex.replace("{aligned}", "{align*}"), display=display)


def inline(writer, node):
    """Write a formula inside a line."""
    writer.body.append(markup(node.astext(), "inline"))
    raise _skip()


def block(writer, node):
    """Write a formula in lines of its own."""
    latex = node.astext()
    if r"\\" in latex and r"\begin" not in latex:
        latex = rf"\begin{{align*}}{latex}\end{{align*}}"
    writer.body.append(f'<div class="math">{markup(latex, "block")}</div>')
    raise _skip()


def _skip():
    from docutils.nodes import SkipNode

    return SkipNode()


def setup(app):
    """Tell Sphinx."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True}
