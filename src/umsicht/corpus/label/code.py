"""Is this text program code? Decided on line shapes and signs, before language identification, which would call it English.

Code fences are taken out first: a tutorial in Markdown is prose about code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from umsicht.corpus.kernels.code import KEYWORDS, MOST_LINES, count_code
from umsicht.corpus.kernels.spans import Spans

HEAD, MIDDLE = 1_200, 1_600
THRESHOLD = 0.42
THRESHOLD_MARKDOWN = 0.75
"""A page with fences, headings or links in Markdown is prose unless nearly all of it is code."""


_FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1[`~]*\s*$", re.M | re.S)
_KEYWORDS = frozenset(KEYWORDS.split())
_FIRST_WORD = re.compile(r"\w+")
_OF_CODE = re.compile(r"[(){}\[\];:=.]")
_ASSIGNS = re.compile(r"""[\w.\[\]'"]+\s*(?:[-+*/|&^%]|<<|>>|:)?=\s*\S""")
_CALLS = re.compile(r"[\w.>-]+\([^()]*\)$")
_BRACKETS = re.compile(r"[{}()\[\]]+,?$")
_DIRECTIVE = re.compile(r"\#\s*(?:include|define|ifdef|ifndef|endif|pragma)\b")
_DECORATOR = re.compile(r"@[\w.]+(?:\(.*\))?$")
_ENTRY = re.compile(r"""["'][^"']*["']\s*:\s*.+""")
_HEADS = ("//", "/*", "*/", "#!", "<?php", "<!--")
_LAST = ";{}"
_COMMENT = re.compile(r"^\s*(?:\#|//|\*|--|\"\"\"|''')")
_SIGN = re.compile(r"[{}()\[\];=<>_&|\"'.:]")


_HEADING = re.compile(r"^\#{1,6} [^\n]+\{ ?\#|^\#{2,6} \w", re.M)


def is_markdown(text: str) -> bool:
    """Whether there are fences, links or headings of Markdown. A single `#` heads comments of code too."""
    if "```" in text or "~~~" in text or "](" in text:
        return True
    heads = text.startswith("##") or "\n##" in text or "{#" in text or "{ #" in text
    return heads and _HEADING.search(text) is not None


def has_shape(line: str) -> bool:
    """Whether a line that is not blank has the shape of a line of code: by its last sign, its first word, or what stands between."""
    line = line.lstrip()
    tail, line = line, line.rstrip()
    first, last = line[0], line[-1]
    if last in _LAST or (last == ":" and line[:-1].rstrip().endswith(")")):
        return True
    if first.isalnum() or first == "_":
        word = _FIRST_WORD.match(line)
        if word is not None and word[0] in _KEYWORDS:
            rest = line[word.end() :]
            if not rest or _OF_CODE.search(rest):
                return True
    elif line.startswith(_HEADS) or (first == "-" and line[:2] == "--" and tail[2:3].isspace()):
        return True
    elif first == "#":
        return _DIRECTIVE.match(line) is not None
    elif first == "@":
        return _DECORATOR.match(line) is not None
    elif first in "\"'" and ":" in line and _ENTRY.match(tail):
        return True
    if "=" in line and _ASSIGNS.match(line):
        return True
    if last in "()[]," and _BRACKETS.match(line):
        return True
    return last == ")" and _CALLS.match(line) is not None


Text = TypeVar("Text", str, bytes)


def sample_of(text: Text, line_end: Text) -> Text:
    """The head and the middle of a long text: licences and long comments stand at the head of code."""
    if len(text) <= HEAD + MIDDLE:
        return text
    middle = len(text) // 2
    return text[:HEAD] + line_end + text[middle : middle + MIDDLE]


def lines_of_code(text: str, share: float) -> bool:
    """Whether more than this share of the lines have a line of code's shape, comments and indented lines counted half; code fences are left out.

    Lines are looked at until no other could change the answer.
    """
    if "```" in text or "~~~" in text:
        text = _FENCE.sub("", text)
    lines = [line for line in text.split("\n") if line.strip()]
    lines = lines[:: max(1, len(lines) // MOST_LINES)]
    wanted = share * max(len(lines), 1)
    score = 0.0
    for left, line in zip(range(len(lines), 0, -1), lines, strict=True):
        if score > wanted or score + left <= wanted:
            break
        if has_shape(line):
            score += 1.0
        elif _COMMENT.match(line) or line.startswith(("    ", "\t")):
            score += 0.5
        elif len(line) > 200 and len(_SIGN.findall(line)) > 0.12 * len(line):
            score += 1.0
    return score > wanted


def is_code_by_lines(text: str) -> bool:
    """Many lines are code by shape. Asked only of texts in which signs are as dense as in code."""
    sample = sample_of(text, "\n")
    return lines_of_code(sample, _share(sample))


def _share(sample: str) -> float:
    return THRESHOLD_MARKDOWN if is_markdown(sample) else THRESHOLD


def code_among(spans: Spans, rows: Iterable[int]) -> set[int]:
    """Which of the rows are code by the shape of their lines: plain ASCII all at once, other texts one by one."""
    found: set[int] = set()
    plain: list[int] = []
    samples: list[bytes] = []
    shares: list[float] = []
    for row in map(int, rows):
        data = spans.buffer[spans.starts[row] : spans.ends[row]].tobytes()
        if not data.isascii() or b"```" in data or b"~~~" in data:
            if is_code_by_lines(data.decode("utf-8", "replace")):
                found.add(row)
            continue
        samples.append(sample_of(data, b"\n"))
        shares.append(_share(samples[-1].decode("ascii")))
        plain.append(row)
    is_code = shapes_of(samples, shares)
    return found.union(row for row, yes in zip(plain, is_code.tolist(), strict=True) if yes)


def shapes_of(samples: list[bytes], shares: list[float]) -> npt.NDArray[np.bool_]:
    """`lines_of_code` of ASCII samples without code fences, in a kernel."""
    edges = np.zeros(len(samples) + 1, np.int64)
    np.cumsum([len(sample) for sample in samples], out=edges[1:])
    is_code = np.zeros(len(samples), bool)
    data = np.frombuffer(b"".join(samples) + b"\n", np.uint8)
    count_code(data, edges[:-1].copy(), edges[1:].copy(), np.array(shares, np.float64), is_code)
    return is_code
