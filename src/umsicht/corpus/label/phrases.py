"""Sentences that give a text away: an assistant talking, a page that stands for one that was not delivered, a place that nothing was written into.

Found word by word, whatever case and punctuation. The first kind counts in any text; the others in short ones, because in a long text they are a line
among others.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from umsicht.corpus.kernels.phrases import MASK_BITS, find_phrases
from umsicht.corpus.kernels.spans import Words, spans_from, words_of

CHATBOT, BLOCK, EMPTY = 1, 2, 4

CHATBOT_PHRASES = (
    "as an ai language model",
    "as a large language model",
    "as an artificial intelligence language model",
    "I cannot fulfill that request",
    "I cannot fulfill this request",
    "I can't assist with that request",
    "I cannot assist with that request",
    "I can't help with that request",
    "my last knowledge update",
    "as of my knowledge cutoff",
    "here is a rewritten version of the",
    "here's a rewritten version of the",
    "summary of the text you provided",
    "I don't have access to real-time information",
    "als KI-Sprachmodell",
    "als großes Sprachmodell",
    "als künstliche Intelligenz kann ich",
    "bei dieser Anfrage kann ich nicht helfen",
    "bei dieser Anfrage kann ich leider nicht helfen",
    "meinem letzten Wissensstand",
    "meiner letzten Wissensaktualisierung",
    "como modelo de lenguaje",
    "como modelo de inteligencia artificial",
    "mi última actualización de conocimiento",
    "en tant que modèle de langage",
    "ma dernière mise à jour de connaissances",
)
BLOCK_PHRASES = (
    "enable JavaScript and cookies",
    "please enable JavaScript",
    "checking your browser before accessing",
    "make sure you're not a robot",
    "verify you are a human",
    "verify that you are human",
    "access denied you don't have permission",
    "404 not found",
    "403 forbidden",
    "the page you requested could not be found",
    "the page you are looking for",
    "we use cookies to",
    "this website uses cookies",
    "you have reached your article limit",
    "subscribe to continue reading",
    "subscribe now to continue reading",
    "type the characters you see",
    "this domain is for sale",
    "wir verwenden Cookies",
    "diese Website verwendet Cookies",
    "diese Webseite verwendet Cookies",
    "bitte aktivieren Sie JavaScript",
    "Seite wurde nicht gefunden",
    "Seite konnte nicht gefunden werden",
    "dass Sie kein Roboter sind",
    "um weiterzulesen",
    "utilizamos cookies",
    "página no encontrada",
    "habilite JavaScript",
    "nous utilisons des cookies",
    "page introuvable",
    "veuillez activer JavaScript",
)
EMPTY_PHRASES = (
    "lorem ipsum dolor sit amet",
    "this page intentionally left blank",
    "this page is intentionally left blank",
    "no content available",
    "this comment has been removed",
    "this post has been removed",
    "deleted by the moderator",
    "deleted by the moderators",
    "removed by the moderators",
    "null null null",
    "nan nan nan",
    "insert text here",
    "diese Seite wurde absichtlich leer gelassen",
    "dieser Beitrag wurde gelöscht",
    "hier steht ein Blindtext",
    "kein Inhalt verfügbar",
)


class _Known(NamedTuple):
    mask: npt.NDArray[np.uint8]
    words: npt.NDArray[np.uint64]
    edges: npt.NDArray[np.int64]
    anchors: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.uint8]


@functools.cache
def _known() -> _Known:
    listed = [
        *((phrase, CHATBOT) for phrase in CHATBOT_PHRASES),
        *((phrase, BLOCK) for phrase in BLOCK_PHRASES),
        *((phrase, EMPTY) for phrase in EMPTY_PHRASES),
    ]
    words = words_of(spans_from([phrase for phrase, _ in listed]))
    anchors = []
    mask = np.zeros(1 << MASK_BITS, np.uint8)
    for phrase, first, last in zip(
        (phrase for phrase, _ in listed), words.offsets[:-1].tolist(), words.offsets[1:].tolist(), strict=True
    ):
        sizes = [len(word) for word in _split(phrase, last - first)]
        anchors.append(int(np.argmax(sizes)))
        mask[int(words.hashes[first + anchors[-1]]) & 0xFFFF] = 1
    return _Known(
        mask,
        words.hashes,
        words.offsets,
        np.array(anchors, np.int64),
        np.array([kind for _, kind in listed], np.uint8),
    )


def _split(phrase: str, n: int) -> list[str]:
    """The words of a phrase as the hashing cuts them; where this cuts otherwise, any word is as good an anchor."""
    found = "".join(sign if sign.isalnum() else " " for sign in phrase).split()
    return found if len(found) == n else [""] * n


def phrases_in(words: Words) -> npt.NDArray[np.uint8]:
    """Bits of the kinds of phrases (`CHATBOT`, `BLOCK`, `EMPTY`) that every text holds."""
    out = np.zeros(len(words.offsets) - 1, np.uint8)
    if len(out):
        find_phrases(words.hashes, words.offsets, *_known(), out)
    return out
