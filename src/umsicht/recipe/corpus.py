"""Recipe section `corpus`: which text, how it is cleaned, what is set aside."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from umsicht.recipe.base import Section
from umsicht.words import t

SourceKind = Literal["starter", "files", "huggingface"]
StarterPart = Literal["wiki", "wiktionary", "drama", "api", "dialogue", "speeches", "stdlib"]
STARTER_PARTS: tuple[StarterPart, ...] = (
    "wiki",
    "wiktionary",
    "drama",
    "api",
    "dialogue",
    "speeches",
    "stdlib",
)
UNKNOWN = "unknown"


class ClassifierRule(Section):
    """One light classifier and what follows from its score."""

    action: Literal["label", "drop"] = "label"
    """`label` writes the score beside the text; `drop` also drops. A classifier of measured precision below 0.9 may only label."""

    threshold: float | None = Field(default=None, ge=0, le=1)
    """Score from which a document counts; none: the one that its precision was measured at."""

    path: str = ""
    """File of a classifier trained by `umsicht corpus classifier train`; empty: the preset of that name."""


class FilterSettings(Section):
    """What is said about documents, and which of them are dropped for it. Everything dropped is kept with its reason."""

    heuristics: Literal["off", "label", "drop"] = "label"
    """Rules of Gopher, C4 and FineWeb. `label` records the rule that fired."""

    languages: tuple[str, ...] = ()
    """Keep only these languages; none: all."""

    classifiers: dict[str, ClassifierRule] = Field(default_factory=lambda: {"promotional": ClassifierRule()})
    """Light classifiers by label: `promotional` comes with Umsicht (en, de, es, fr)."""

    notices: Literal["label", "drop"] = "label"
    """Documents that claim all rights reserved."""


class SourceSettings(Section):
    """One source of documents."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    """Name in ledgers and reports."""

    kind: SourceKind = "files"
    """`starter` reads text out of installed Python packages; `files` reads a file, a folder or a pattern; `huggingface` streams a data set of the hub, or
    a folder written by `save_to_disk` (package `datasets`)."""

    path: str = ""
    """File, folder or pattern (any fsspec address) for `files`, folder or name of the data set for `huggingface`; relative paths start at the recipe's
    folder."""

    subset: str = ""
    """Configuration of a `huggingface` data set, where it has several."""

    split: str = "train"
    """Split of a `huggingface` data set."""

    revision: str = ""
    """Commit or fixed tag of a data set on the hub: without it the same recipe could give another corpus."""

    extractor: Literal["resiliparse", "trafilatura"] = "resiliparse"
    """What finds the main content of web pages: `resiliparse` is fast, `trafilatura` (a package to install) keeps a little more of unusual pages."""

    domain: str = Field(default="text", pattern=r"^[a-z0-9][a-z0-9_-]{0,31}$")
    """Domain of its documents: the first half of a slice's name."""

    language: str = Field(default="", pattern=r"^([a-z]{2,8}(-[a-z0-9]{2,8})*)?$")
    """Language of its documents (`en`, `de`, `zh-hant`, `code`); empty: taken from the documents or found by language id."""

    licence: str = UNKNOWN
    """Licence of its documents; `unknown` is a finding."""

    include: tuple[str, ...] = ()
    """Patterns of relative paths to read; none: everything that a reader knows."""

    exclude: tuple[str, ...] = ()
    """Patterns of relative paths to leave out."""

    text_field: str = "text"
    """Field that holds the text in JSONL and Parquet, or column that does in CSV; a dotted path reaches into objects. A list of texts or of turns
    (`messages`, `conversations`) is joined with blank lines."""

    language_field: str = ""
    """Field that holds the language, where there is one."""

    licence_field: str = ""
    """Field that holds the licence, where there is one."""

    separator: str = ""
    """String between documents of a plain text file, e.g. `<|endoftext|>`; empty: one file is one document."""

    max_bytes: int | None = Field(default=None, gt=0)
    """Stop reading this source after about so many bytes of text; for `starter` this holds for each part."""

    filter: FilterSettings | None = None
    """Filters of this source; none: those of the corpus."""

    largest_share: float = Field(default=0.9, gt=0, le=1)
    """A finding says so where the source has a larger share of the corpus."""

    parts: tuple[StarterPart, ...] = STARTER_PARTS
    """Parts of the starter corpus to read."""

    @model_validator(mode="after")
    def _has_path(self) -> SourceSettings:
        if self.kind != "starter" and not self.path:
            raise ValueError(t("recipe.rule.path", name=self.name))
        return self


class NormaliseSettings(Section):
    """What may change in a text. The default loses nothing a reader would miss."""

    unicode: Literal["keep", "nfc"] = "keep"
    """`keep` leaves characters as they are; `nfc` composes them."""

    repair_mojibake: bool = True
    """Repair text that was decoded with the wrong table, where it shows signs of it."""

    redact: tuple[Literal["email", "phone", "ip", "key"], ...] = ("email", "key")
    """Personal data and secrets that are replaced by a marker (`<email>`). Code keeps phone-like numbers and addresses of machines."""


class ValidationSplitSettings(Section):
    """Documents set aside before anything else, chosen by the hash of their text in each slice."""

    share: float = Field(default=0.02, ge=0, le=0.5)
    """Share of a slice's bytes."""

    min_bytes: int = Field(default=60_000, ge=0)
    """Set at least so much of a slice aside, as long as `largest_share` allows it."""

    max_bytes: int = Field(default=200_000, ge=0)
    """Never more than this from one slice."""

    largest_share: float = Field(default=0.1, ge=0, le=0.5)
    """Never more than this share of a slice: small slices keep their text for training."""

    seed: int = Field(default=0, ge=0)
    """Another seed sets other documents aside."""


class NearSettings(Section):
    """Documents that are nearly the same: found by sketches, verified on their whole sets of shingles."""

    enabled: bool = True
    """Search for near-duplicates."""

    words: int = Field(default=5, ge=1, le=13)
    """Words in a shingle."""

    jaccard: float = Field(default=0.7, gt=0, le=1)
    """A document goes if its shingles and those of a kept one overlap by so much (shared over all) …"""

    containment: float = Field(default=0.8, gt=0, le=1)
    """… or if so much of it stands in a kept one (cut off, or with something put before it)."""

    largest_share: float = Field(default=0.7, gt=0, le=1)
    """Never drop more than this share of a source's documents; the most alike go first, and a finding says so."""


class ParagraphSettings(Section):
    """Paragraphs that stand in several documents. Code is left alone."""

    enabled: bool = True
    """Cut repeated paragraphs out of all documents but the first."""

    min_shingles: int = Field(default=20, ge=1)
    """Shorter paragraphs are left alone."""


class LineSettings(Section):
    """Lines that stand in a large part of a source's documents: headers, cookie notices, navigation. Code is left alone."""

    enabled: bool = True
    """Remove boilerplate lines."""

    min_words: int = Field(default=4, ge=1)
    """Shorter lines are left alone."""

    min_documents: int = Field(default=20, ge=2)
    """A line must stand in at least so many documents of a source …"""

    share: float = Field(default=0.05, gt=0, le=1)
    """… and in at least this share of them."""


class DedupeSettings(Section):
    """What counts as a repetition."""

    near: NearSettings = NearSettings()
    """Documents."""

    paragraphs: ParagraphSettings = ParagraphSettings()
    """Paragraphs."""

    lines: LineSettings = LineSettings()
    """Lines."""


class ProtectedSettings(Section):
    """Texts that must not be trained on; fingerprinted before the corpus is built, removed from the corpus and never from the set."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$")
    """Name in reports."""

    path: str
    """File, folder or pattern: JSONL or Parquet (one item a row), or plain text (one item a file)."""

    fields: tuple[str, ...] = ()
    """Fields of a row to fingerprint; none: every string in it."""

    kind: Literal["evaluation", "work"] = "evaluation"
    """`evaluation`: a test set; `work`: a text protected by copyright."""


class EngineSettings(Section):
    """Who does the work, and with how much memory. None of this changes the result, so none of it enters the artifact's id."""

    executor: Literal["auto", "serial", "dask"] = "auto"
    """`serial` works in this process; `dask` starts workers (or uses `address`); `auto` is serial below 200 MB of input."""

    workers: int | None = Field(default=None, ge=1)
    """Worker processes of the embedded cluster; none: one a processor core."""

    address: str = ""
    """Address of a running Dask scheduler, e.g. `tcp://10.0.0.1:8786`."""

    memory_bytes: int = Field(default=1_000_000_000, ge=64_000_000)
    """Memory that all processes together may use for data."""


class CorpusSettings(Section):
    """Sources and what is done with them."""

    sources: tuple[SourceSettings, ...] = (SourceSettings(name="starter", kind="starter"),)
    """Where the text comes from. In a duplicate pair of equal length the source listed first keeps its copy."""

    normalise: NormaliseSettings = NormaliseSettings()
    """What may change in a text."""

    validation: ValidationSplitSettings = ValidationSplitSettings()
    """What is set aside for validation."""

    filter: FilterSettings = FilterSettings()
    """What is said about documents, and which are dropped for it."""

    dedupe: DedupeSettings = DedupeSettings()
    """What counts as a repetition."""

    protect: tuple[ProtectedSettings, ...] = ()
    """Evaluation sets and works that must not be trained on."""

    min_document_bytes: int = Field(default=20, ge=1)
    """Shorter documents are dropped."""

    max_document_bytes: int = Field(default=8_000_000, ge=1_000)
    """Longer documents are cut, at blank lines where there are any."""

    partition_bytes: int = Field(default=32_000_000, ge=10_000)
    """Text in one partition, the unit of work and of resuming."""

    engine: EngineSettings = EngineSettings()
    """Who does the work."""

    @model_validator(mode="after")
    def _names_differ(self) -> CorpusSettings:
        names = [source.name for source in self.sources]
        if not names:
            raise ValueError(t("recipe.rule.no_sources"))
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(t("recipe.rule.source_twice", names=", ".join(twice)))
        return self
