"""Mathematics as MathML, made at build time: legible without scripts, and read by screen readers.

pymdownx.arithmatex (generic) leaves TeX in elements of class `arithmatex`; this rewrites them.
"""

import html
import re

from inferlab.site import state

_TEX = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">'
    r"\\(?P<open>[(\[])(?P<tex>.*?)\\[)\]]</(?P=tag)>",
    re.DOTALL,
)


def convert(content: str) -> str:
    """The page's HTML with each formula as MathML; a formula that has none is a problem."""
    return _TEX.sub(_formula, content)


def _formula(match: re.Match[str]) -> str:
    from latex2mathml.converter import convert as to_mathml

    tex = html.unescape(match["tex"]).strip()
    display = "block" if match["open"] == "[" else "inline"
    try:
        mathml = str(to_mathml(tex, display=display))
    except Exception as error:
        state.current().problem(f"cannot turn this TeX into MathML: {tex} ({error})")
        return f"<code>{html.escape(tex)}</code>"
    mathml = mathml.replace("<math ", f'<math alttext="{html.escape(tex)}" ', 1)
    return f'<div class="il-math" tabindex="0">{mathml}</div>' if display == "block" else mathml
