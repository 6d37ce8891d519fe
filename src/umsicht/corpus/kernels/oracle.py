"""Plain-Python twins of the kernels: slow, short, and written without looking at bytes. Tests compare the two on every kind of text."""

from __future__ import annotations

import re

from umsicht.corpus.kernels.fold import JOINERS, fold_character, stands_alone
from umsicht.corpus.kernels.marks import CONTROLS, TAGS

_MASK = 0xFFFFFFFFFFFFFFFF
_BASIS, _PRIME = 0xCBF29CE484222325, 0x9FB21C651E98DF25
_BASE = 0x9E3779B97F4A7C15


def _is_digit(character: str) -> bool:
    return len(folded := fold_character(character) or "") == 1 and folded in "0123456789"


def _joins(text: str, place: int) -> bool:
    """Whether digits stand right before and after."""
    return 0 < place < len(text) - 1 and _is_digit(text[place - 1]) and _is_digit(text[place + 1])


def words(text: str) -> list[str]:
    """Folded words."""
    found: list[str] = []
    current = ""
    for place, character in enumerate(text):
        if character in JOINERS and _joins(text, place):
            continue
        folded = None if character in JOINERS else fold_character(character)
        if folded == "":
            continue
        if folded is None or (stands_alone(ord(character)) and not folded.isdecimal()):
            if current:
                found.append(current)
            current = ""
            if folded:
                found.append(folded)
        else:
            current += folded
    return [*found, current] if current else found


_MARKUP = re.compile(
    r"(?<!\S)\S+@\S+|<[^<>]{1,300}>|`[^`\n]*`|\{[^{}\n]{0,100}\}|\]\([^()\s]*\)|https?://\S+|www\.\S+|&#?[0-9A-Za-z_]+;"
    r"|[0-9_#*|=<>/\\^~@]+"
)
_NAME = re.compile(r"[A-Z][\w.-]*[A-Z.]|\w[._]\w")


def without_fences(text: str) -> str:
    """Lines outside of code fences; each fence leaves an empty line."""
    lines, kept, at = text.split("\n"), [], 0
    while at < len(lines):
        fence = re.match(r"`{3,}|~{3,}", lines[at])
        if fence:
            close = re.compile(re.escape(fence[0]) + r"[`~]*[ \t\r]*")
            closed = next((k for k in range(at + 1, len(lines)) if close.fullmatch(lines[k])), None)
            if closed is not None:
                kept.append("")
                at = closed + 1
                continue
        kept.append(lines[at])
        at += 1
    return "\n".join(kept)


def _no_name(run: re.Match[str]) -> str:
    core = run[0].rstrip(".-")
    return " " + run[0][len(core) :] if _NAME.search(core) else run[0]


def _cleaned(data: bytes) -> str:
    return " ".join(_MARKUP.sub(" ", data.decode("utf-8", "ignore")).split())


def _two_windows(data: bytes, looked_at: int, width: int, half: int) -> str:
    """The halves of a sample out of two short windows; empty where one holds too little."""
    seen = data[:looked_at].decode("utf-8", "ignore").encode()
    middle = len(seen) // 2
    space = re.search(rb"[ \n]", seen[middle : middle + 40])
    middle += space.end() if space else 0
    while middle < len(seen) and seen[middle] & 0xC0 == 0x80:
        middle += 1
    first, second = _cleaned(data[:width])[:half], _cleaned(seen[middle : middle + width])[:half]
    return f"{first} {second}" if len(first) == len(second) == half else ""


def prose_sample(text: str, looked_at: int, looked_at_markup: int, sample: int, width: int) -> str:
    """The sample of running prose that language identification looks at."""
    data = text.encode()
    window = data[:looked_at_markup].decode("utf-8", "ignore")
    marks = "```" in window or "~~~" in window
    if not marks and len(data) >= 2 * width and (found := _two_windows(data, looked_at, width, sample // 2)):
        return found
    if marks:
        full = " ".join(_MARKUP.sub(" ", without_fences(window)).split())
        short = " ".join(re.sub(r"[\w.-]+", _no_name, full).split())
        chosen = short if len(short) >= max(20, len(full) // 3) else full
    else:
        chosen = _cleaned(data[:looked_at])
    if len(chosen) <= sample:
        return chosen
    half, middle = sample // 2, len(chosen) // 2
    return f"{chosen[:half]} {chosen[middle : middle + half]}"


CODE_LINE = re.compile(
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
"""The shape of a line of code, as one expression."""
MARKDOWN = re.compile(r"```|~~~|\]\(|^\#{1,6} [^\n]+\{ ?\#|^\#{2,6} \w", re.M)
"""What marks a text as Markdown, as one expression."""


def word_hash(word: str) -> int:
    """Hash of one folded word."""
    value = _BASIS
    for character in word:
        value = ((value ^ ord(character)) * _PRIME) & _MASK
    return value ^ (value >> 32)


def mix(value: int) -> int:
    """MurmurHash3's finaliser."""
    value = ((value ^ (value >> 33)) * 0xFF51AFD7ED558CCD) & _MASK
    value = ((value ^ (value >> 33)) * 0xC4CEB9FE1A85EC53) & _MASK
    return value ^ (value >> 33)


def run_hash(run: list[str], salt: int = 0) -> int:
    """Hash of a run of words."""
    value = salt
    for word in run:
        value = (value * _BASE + word_hash(word)) & _MASK
    return mix(value)


def shingles(text: str, n: int) -> list[int]:
    """Hashes of all runs of n words, in order; a shorter text is one shingle."""
    found = words(text)
    if not found:
        return []
    if len(found) < n:
        return [run_hash(found, salt=len(found))]
    return [run_hash(found[i : i + n]) for i in range(len(found) - n + 1)]


def sketch(text: str, n: int, size: int) -> list[int]:
    """The smallest different shingle hashes."""
    return sorted(set(shingles(text, n)))[:size]


def jaccard(left: set[int], right: set[int]) -> float:
    """Shared over all."""
    return len(left & right) / max(len(left | right), 1)


def containment(part: set[int], whole: set[int]) -> float:
    """Share of `part` that is in `whole`."""
    return len(part & whole) / max(len(part), 1)


_ENTITY = re.compile(r"&[A-Za-z0-9_#]{1,9};")
_TAG = re.compile(rf"</?(?:{'|'.join(TAGS)})(?![A-Za-z0-9_])[^<>]*>", re.I)
_CONTROL = re.compile(rf"<\|\w{{1,38}}\|>|(?i:</?(?:{'|'.join(CONTROLS)})>)|\[/?INST\]", re.A)
_ESCAPE = re.compile(r"\\n(?![a-z])|\\u[0-9a-fA-F]{4}")
_LOST = re.compile(r"(?<=[A-Za-z])\?(?=[a-z])(?!\w{1,39}[=/&])", re.A)
_TWICE = re.compile(
    "\ufffd|[ÂÃ](?=[\x80-\xbf\u0140-\u01bf\u02c0-\u02ff\u2000-\u2fff])|â(?=[\u2080-\u20bf\x80-\xbf])"
)
_HYPHEN = re.compile("(?<=[A-Za-z])-\n(?=[a-z\u00c0-\U0010ffff])")
_RUN = re.compile(r"[A-Za-z0-9+/=]{65,}")


def marks(text: str) -> dict[str, float]:
    """What `find_marks` counts, for texts without long tags."""
    runs = (run for run in _RUN.findall(text) if sum(sign.isdigit() for sign in run) >= 4)
    return {
        "broken": len(_TWICE.findall(text)) + len(_LOST.findall(text)),
        "entities": len(_ENTITY.findall(text)),
        "tags": len(_TAG.findall(text)),
        "escapes": len(_ESCAPE.findall(text)),
        "controls": len(_CONTROL.findall(text)),
        "encoded": sum(map(len, runs)),
        "hyphens": len(_HYPHEN.findall(text)),
    }
