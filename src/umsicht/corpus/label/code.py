"""Is this text program code? Decided on line shapes and signs, before language identification, which would call it English.

Code fences are taken out first: a tutorial in Markdown is prose about code.
"""

from __future__ import annotations

import re

HEAD, MIDDLE = 1_200, 1_600
MOST_LINES = 40
"""About so many lines, evenly taken, decide."""
THRESHOLD = 0.42
THRESHOLD_MARKDOWN = 0.75
"""A page with fences, headings or links in Markdown is prose unless nearly all of it is code."""


_FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1[`~]*\s*$", re.M | re.S)
_LINE = re.compile(
    r"""^\s*(?:
        (?:def|class|import|from|return|if|elif|else|for|while|try|except|finally|with|raise|yield|async|await|lambda|pass|
           assert|del|global|print|self|public|private|protected|static|void|int|const|let|var|function|export|package|func|fn|
           use|struct|enum|impl|trait|interface|namespace|template|typedef|SELECT|INSERT|CREATE|UPDATE|FROM|WHERE|end|begin|
           module|require|puts|echo|fi|done|do|then|case|switch|break|continue|goto|throw|throws|new|extends|implements)\b
            (?=.*[(){}\[\];:=.]|\s*$)
      | [\w.\[\]'"]+\s*(?:[-+*/|&^%]|<<|>>|:)?=\s*\S
      | [\w.>-]+\([^()]*\)\s*[;:{]?\s*$
      | [{}()\[\]]+[;,]?\s*$
      | \#\s*(?:include|define|ifdef|ifndef|endif|pragma)\b
      | @[\w.]+(?:\(.*\))?\s*$
      | (?://|/\*|\*/|\#!|<\?php|<!--|--\s)
      | .*[;{}]\s*$
      | .*\)\s*:\s*$
      | ["'][^"']*["']\s*:\s*.+,?\s*$
    )""",
    re.X,
)
_COMMENT = re.compile(r"^\s*(?:\#|//|\*|--|\"\"\"|''')")
_SIGN = re.compile(r"[{}()\[\];=<>_&|\"'.:]")


_MARKDOWN = re.compile(r"```|~~~|\]\(|^\#{1,6} [^\n]+\{ ?\#|^\#{2,6} \w", re.M)


def sample_of(text: str) -> str:
    """The head and the middle of a long text: licences and long comments stand at the head of code."""
    if len(text) <= HEAD + MIDDLE:
        return text
    middle = len(text) // 2
    return f"{text[:HEAD]}\n{text[middle : middle + MIDDLE]}"


def code_score(text: str) -> float:
    """Share of lines that have a line of code's shape, comments and indented lines counted half; code fences are left out."""
    if "```" in text or "~~~" in text:
        text = _FENCE.sub("", text)
    lines = [line for line in text.split("\n") if line.strip()]
    lines = lines[:: max(1, len(lines) // MOST_LINES)]
    score = 0.0
    for line in lines:
        if _LINE.match(line):
            score += 1.0
        elif _COMMENT.match(line) or line.startswith(("    ", "\t")):
            score += 0.5
        elif len(line) > 200 and len(_SIGN.findall(line)) > 0.12 * len(line):
            score += 1.0
    return score / max(len(lines), 1)


def is_code_by_lines(text: str) -> bool:
    """Many lines are code by shape. Asked only of texts in which signs are as dense as in code."""
    sample = sample_of(text)
    return code_score(sample) > (THRESHOLD_MARKDOWN if _MARKDOWN.search(sample) else THRESHOLD)
