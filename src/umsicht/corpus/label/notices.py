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


AROUND = 40, 200
"""Characters before and after a hint in which the notice stands that it is part of."""


def has_notice(text: str) -> bool:
    """Whether the head or the tail of a text claims all rights."""
    if len(text) > 2 * LOOKED_AT:
        text = text[:LOOKED_AT] + "\n" + text[-LOOKED_AT:]
    folded = text.lower()
    return any(_stands_near(hint, folded) for hint in _HINTS if hint in folded)


def _stands_near(hint: str, folded: str) -> bool:
    place = folded.find(hint)
    while place >= 0:
        if _NOTICE.search(folded, max(0, place - AROUND[0]), place + AROUND[1]):
            return True
        place = folded.find(hint, place + 1)
    return False
