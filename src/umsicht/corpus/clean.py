"""Normalising, naming the language and redacting a batch of texts of one source: one look at all bytes, and the exact work only where that calls for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from umsicht.corpus.document import CODE_DOMAIN
from umsicht.corpus.kernels import survey
from umsicht.corpus.kernels.spans import Spans, spans_from, spans_of
from umsicht.corpus.label.language import CODE, UNDETERMINED, identify_many
from umsicht.corpus.normalise import normalise, strip_blank_lines, without_surrogates
from umsicht.corpus.redact import redact
from umsicht.corpus.sources.unit import SourceInfo
from umsicht.recipe.corpus import NormaliseSettings

ONLY_PROSE = ("email", "key")
"""What is redacted in code too."""
_NORMALISE = survey.CONTROL | survey.LINE_END | survey.MOJIBAKE
_CALLS_FOR = {"email": survey.AT, "key": survey.KEY, "ip": survey.DOTS, "phone": survey.DIGITS}


@dataclass
class Batch:
    """Texts of one source and what their readers said of them; columns of equal length."""

    info: SourceInfo
    texts: list[str] = field(default_factory=list)
    origins: list[str] = field(default_factory=list)
    languages: list[str] = field(default_factory=list)
    licences: list[str] = field(default_factory=list)
    domains: list[str] = field(default_factory=list)
    spans: Spans | None = None
    """The texts, where they came as a column; `texts` is empty then."""

    def __len__(self) -> int:
        return len(self.origins)

    def add(self, text: str, origin: str, language: str, licence: str, domain: str) -> None:
        """One more text."""
        self.texts.append(text)
        self.origins.append(origin)
        self.languages.append(language)
        self.licences.append(licence)
        self.domains.append(domain)

    @classmethod
    def of(cls, info: SourceInfo, texts: pa.LargeStringArray, origins: list[str]) -> Batch:
        """A whole column of texts of which their reader said nothing."""
        n = len(origins)
        language, licence = info.language.lower(), info.licence
        return cls(info, [], origins, [language] * n, [licence] * n, [""] * n, spans_of(texts))

    def column(self) -> Spans:
        """All texts. Halves of surrogate pairs, which are no characters, are taken out."""
        if self.spans is not None:
            return self.spans
        try:
            return spans_from(self.texts)
        except UnicodeEncodeError:
            return spans_from([without_surrogates(text) for text in self.texts])


class Texts:
    """The texts of a batch while they change."""

    def __init__(self, spans: Spans) -> None:
        self.spans = spans
        self.changed: dict[int, str] = {}

    def __getitem__(self, row: int) -> str:
        found = self.changed.get(row)
        return self.spans.text(row) if found is None else found

    def __setitem__(self, row: int, text: str) -> None:
        self.changed[row] = text

    def settled(self) -> Spans:
        """The texts as they are now."""
        rows = sorted(self.changed)
        return self.spans.replaced(rows, [self.changed[row] for row in rows]) if rows else self.spans


@dataclass(frozen=True)
class Cleaned:
    """The batch with its texts as they will be stored."""

    batch: Batch
    spans: Spans
    read_bytes: int
    notice: npt.NDArray[np.bool_]
    """False: certainly no copyright notice."""
    redacted: Counter[str]


def clean(batch: Batch, settings: NormaliseSettings, max_document_bytes: int) -> Cleaned:
    """Normalise, name languages and domains, redact, and cut what is too long."""
    texts = Texts(batch.column())
    read_bytes = int((texts.spans.ends - texts.spans.starts).sum())
    flags = survey_of(texts.spans)
    _normalise(texts, flags, settings)
    changed = set(texts.changed)
    _languages(batch, texts, changed)
    redacted = _redact(batch, texts, flags, settings)
    notice = (flags & survey.NOTICE) != 0
    notice[list(changed)] = True
    spans = texts.settled()
    long = np.flatnonzero(spans.ends - spans.starts > max_document_bytes).tolist()
    if long:
        cut = {i: list(cut_text(spans.text(i), max_document_bytes)) for i in long}
        batch, notice = _divide(batch, spans, notice, cut)
        spans = spans_from(batch.texts)
    return Cleaned(batch, spans, read_bytes, notice, redacted)


def survey_of(spans: Spans) -> npt.NDArray[np.uint32]:
    """Flags of every text."""
    flags = np.zeros(len(spans), np.uint32)
    survey.survey(spans.buffer, spans.starts, spans.ends, survey.byte_kinds(), flags)
    return flags


def _normalise(texts: Texts, flags: npt.NDArray[np.uint32], settings: NormaliseSettings) -> None:
    """Change what is not clean."""
    exact = _NORMALISE | (survey.WIDE if settings.unicode == "nfc" else 0)
    for i in np.flatnonzero(flags & (exact | survey.EDGE)).tolist():
        text = texts[i]
        new = normalise(text, settings) if flags[i] & exact else strip_blank_lines(text)
        if new != text:
            texts[i] = new


def _languages(batch: Batch, texts: Texts, changed: set[int]) -> None:
    """Fill in languages that nobody declared, and the domain of code among plain text."""
    unknown = [i for i, language in enumerate(batch.languages) if not language or language == UNDETERMINED]
    same = [i for i in unknown if i not in changed]
    other = [i for i in unknown if i in changed]
    for rows, spans in (
        (same, texts.spans.take(np.array(same, np.int64)) if same else None),
        (other, spans_from([texts[i] for i in other]) if other else None),
    ):
        if spans is not None:
            for i, (language, _) in zip(rows, identify_many(spans), strict=True):
                batch.languages[i] = language
    info = batch.info
    for i, (domain, language) in enumerate(zip(batch.domains, batch.languages, strict=True)):
        if not domain:
            batch.domains[i] = CODE_DOMAIN if language == CODE and info.domain == "text" else info.domain


def _redact(
    batch: Batch, texts: Texts, flags: npt.NDArray[np.uint32], settings: NormaliseSettings
) -> Counter[str]:
    found: Counter[str] = Counter()
    calls = sum(_CALLS_FOR[kind] for kind in settings.redact)
    for i in np.flatnonzero(flags & calls).tolist():
        kinds: Sequence[str] = [kind for kind in settings.redact if flags[i] & _CALLS_FOR[kind]]
        if batch.domains[i] == CODE_DOMAIN:
            kinds = [kind for kind in kinds if kind in ONLY_PROSE]
        text, counts = redact(texts[i], kinds)
        if counts:
            texts[i] = text
            found.update(counts)
    return found


def _divide(
    batch: Batch, spans: Spans, notice: npt.NDArray[np.bool_], cut: dict[int, list[str]]
) -> tuple[Batch, npt.NDArray[np.bool_]]:
    divided = Batch(batch.info)
    notices: list[bool] = []
    for i in range(len(batch)):
        for number, piece in enumerate(cut[i] if i in cut else [spans.text(i)]):
            origin = batch.origins[i] if number == 0 else f"{batch.origins[i]}~{number + 1}"
            divided.add(piece, origin, batch.languages[i], batch.licences[i], batch.domains[i])
            notices.append(bool(notice[i]))
    return divided, np.array(notices, bool)


def cut_text(text: str, limit: int) -> Iterator[str]:
    """A long text in pieces of at most `limit` UTF-8 bytes, cut at blank lines where there are any, else at line ends, else anywhere."""
    while len(text) * 4 > limit and len(data := text.encode()) > limit:
        end = len(data[:limit].decode("utf-8", "ignore"))
        for sign in ("\n\n", "\n"):
            place = text.rfind(sign, end // 4, end)
            if place > 0:
                end = place
                break
        yield text[:end].rstrip("\n")
        text = text[end:].lstrip("\n")
    if text:
        yield text
