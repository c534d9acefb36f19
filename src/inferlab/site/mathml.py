"""Mathematics as MathML, made at build time: legible without scripts, and read by screen readers.

pymdownx.arithmatex (generic) leaves TeX in elements of class `arithmatex`; this rewrites them.
"""

import html
import re
from xml.etree import ElementTree as ET

from inferlab.site import state

_TEX = re.compile(
    r'<(?P<tag>span|div) class="arithmatex">'
    r"\\(?P<open>[(\[])(?P<tex>.*?)\\[)\]]</(?P=tag)>",
    re.DOTALL,
)
_LETTERS = re.compile(r'(?:<mi mathvariant="normal">[A-Za-z]</mi>){2,}')
_CHILDREN = {"mfrac": 2, "msub": 2, "msup": 2, "msubsup": 3, "munder": 2, "mover": 2, "mroot": 2}


def convert(content: str) -> str:
    """The page's HTML with each formula as MathML; a formula that has none is a problem."""
    return _TEX.sub(_formula, content)


def _formula(match: re.Match[str]) -> str:
    tex = html.unescape(match["tex"]).strip()
    display = "block" if match["open"] == "[" else "inline"
    try:
        mathml = to_mathml(tex, display)
    except ValueError as error:
        state.current().problem(f"cannot turn this TeX into MathML: {tex} ({error})")
        return f"<code>{html.escape(tex)}</code>"
    return f'<div class="il-math" tabindex="0">{mathml}</div>' if display == "block" else mathml


def to_mathml(tex: str, display: str) -> str:
    """TeX as a <math> element whose alttext is the TeX. Raises ValueError for what it cannot do."""
    from latex2mathml.converter import convert as latex_to_mathml

    try:
        mathml = str(latex_to_mathml(tex, display=display))
        root = ET.fromstring(mathml)
    except Exception as error:
        raise ValueError(f"{type(error).__name__} {error}".strip()) from error
    for element in root.iter():
        tag = element.tag.rpartition("}")[2]
        if (wanted := _CHILDREN.get(tag)) and len(element) != wanted:
            raise ValueError(f"{tag} needs {wanted} arguments and has {len(element)}")
        # The library passes on commands that it does not know.
        if "\\" in (element.text or ""):
            raise ValueError(f"unknown command {element.text}")
    mathml = _LETTERS.sub(_word, mathml)
    return mathml.replace("<math ", f'<math alttext="{html.escape(tex)}" ', 1)


def _word(match: re.Match[str]) -> str:
    """One element for an upright word, which the library writes letter by letter."""
    letters = re.sub(r"<[^>]*>", "", match[0])
    return f'<mi mathvariant="normal">{letters}</mi>'
