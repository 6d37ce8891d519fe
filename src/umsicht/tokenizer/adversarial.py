"""Texts that break careless tokenizers. Every build sends them there and back.

A sample of ordinary documents can miss a lossy tokenizer altogether (compatibility normalisation changed 1 of 120 ordinary documents), so
the set is fixed: white space, line ends, characters that normalisation folds, scripts, joins, controls, literal special tokens, every byte.
"""

from __future__ import annotations

from umsicht.tokenizer.special import NAMED

CASES: dict[str, str] = {
    "empty": "",
    "single space": " ",
    "tabs": "\tif x:\n\t\treturn\t1\n",
    "runs of spaces": "a  b   c    d" + " " * 33 + "e",
    "trailing spaces": "line   \nline  \n   ",
    "windows line ends": "one\r\ntwo\r\n\r\nthree\r",
    "blank lines": "\n\n\n \n\n",
    "code": 'def f(x: int) -> str:\n    """Doc."""\n    return f"{x:>08.3f}"  # ok\n',
    "no-break and odd spaces": "a\u00a0b\u2003c\u3000d\u200be\u2009f\u202fg\u0085h\u180ei\ufeffj",
    "ligatures": "ﬁne ﬂow ﬃ ﬆ Ĳ ǆ",
    "superscripts and fractions": "x² + y³ ≤ ½ m⁻¹ ™ № ① ㎏",
    "full width": "ＡＢＣ１２３！",
    "combining marks": "e\u0301 n\u0303 a\u0323\u0302 \u1e9b\u0323",
    "precomposed beside decomposed": "é e\u0301 Å A\u030a Å",
    "upper and sharp s": "STRASSE straße STRAẞE İstanbul ı",
    "contractions": "don't DON'T we'll they'Re l'été d’accord",
    "digits": "1234567890 3.14159 1,000,000 ٣٤٥ १२३ 万 1e-10 2026-11-30",
    "emoji joined": "👩‍👩‍👧‍👦 👍🏽 🏳️‍🌈 🇩🇪🇫🇷 ☺️ ☺",
    "right to left": "שלום עולם، مرحبا بالعالم \u202eabc\u202c",
    "vowel signs": "हिन्दी में क्षि किताबें ไทยภาษา ភាសា",
    "chinese": "人工智能改变世界。他说：「你好！」",
    "japanese": "吾輩は猫である。名前はまだ無い。ﾊﾝｶｸ",
    "korean": "대한민국 \u1112\u1161\u11ab\u1100\u1173\u11af",
    "greek and cyrillic": "Ὀδυσσεύς πολύτροπος; Привет, мир — ё",
    "beyond the first plane": "𝔘𝔪𝔰𝔦𝔠𝔥𝔱 𐍈 𒀀 🜁 \U000e0041 \U0010fffd",
    "null and controls": "a\x00b\x01c\x07d\x1b[0me\x7ff",
    "private and unassigned": "\ue000 \uf8ff \u0378 \uffff \ufffe",
    "replacement character": "\ufffd\ufffd",
    "mark-up": "<p class='x'>&amp; &#39;</p><!-- -->",
    "literal special tokens": " ".join(NAMED) + "".join(NAMED) + "<|im_start|>user\nhi<|im_end|>",
    "nearly special": "<|endoftext| > <|end of text|> <|reserved_0|> </s> <s> [PAD] <unk>",
    "long word": "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft" * 3,
    "one character many times": "a" * 500 + "=" * 200 + "\n" * 50,
    "every code point below U+0250": "".join(chr(point) for point in range(1, 0x250)),
}
"""Name → text."""

ADVERSARIAL: tuple[str, ...] = tuple(CASES.values())


def every_byte() -> bytes:
    """All 256 byte values, each once, and each after a letter: most of it is no UTF-8, so it tests raw bytes."""
    return bytes(range(256)) + b"".join(b"a" + bytes([value]) for value in range(256))
