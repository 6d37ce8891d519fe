"""Copyright notices inside texts: a hint that a licence in a recipe may not hold for them."""

from __future__ import annotations

import re

LOOKED_AT = 3_000

_NOTICE = re.compile(
    r"all rights reserved|alle rechte vorbehalten|tous droits réservés|todos los derechos reservados|tutti i diritti riservati"
    r"|todos os direitos reservados|alle rechten voorbehouden|無断転載|版权所有|все права защищены"
    r"|(?:©|\(c\)|copyright)\s*(?:©|\(c\))?\s*(?:by\s+)?(?:1[89]|20)\d\d",
    re.I,
)


_HINTS = (
    *(
        "rights reserved",
        "vorbehalten",
        "droits réservés",
        "reservados",
        "riservati",
        "voorbehouden",
        "copyright",
    ),
    *("©", "(c)", "無断転載", "版权所有", "защищены"),
)
"""Plain words, one of which is in every notice: looking for them costs a hundredth of the pattern."""


def has_notice(text: str) -> bool:
    """Whether the head or the tail of a text claims all rights."""
    if len(text) > 2 * LOOKED_AT:
        text = text[:LOOKED_AT] + "\n" + text[-LOOKED_AT:]
    folded = text.lower()
    return any(hint in folded for hint in _HINTS) and _NOTICE.search(text) is not None
