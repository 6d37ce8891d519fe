"""T2 and T3 on disk: every id of every shard, every offset, every document's end, and every stored document against its text."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from umsicht.findings import Finding
from umsicht.findings.finding import Grade
from umsicht.guard.probes.text import declared_form, first_difference, kind_of_change
from umsicht.guard.subject import Subject, numbers, token_count

COMPARED_BYTES = 64_000_000


def token_ids(subject: Subject) -> Iterator[Finding]:
    """Stored ids: their range, their width, their tokenizer, and the text they stand for."""
    data = subject.need("data", "token data")
    yield from _vocabulary(subject, data)
    yield from _shards(subject, data)
    yield from _texts(subject, data)


def _vocabulary(subject: Subject, data: Any) -> Iterator[Finding]:
    known = token_count(subject.tokenizer) if subject.tokenizer is not None else None
    rows = subject.model.embedding_rows if subject.model is not None else None
    index = getattr(data, "index", {})
    digest = getattr(subject.tokenizer, "digest", None)
    if digest is not None and index.get("tokenizer_digest") not in (None, digest):
        yield Finding(
            "ID-RANGE/other-tokenizer",
            "stop",
            "token-ids",
            location="token storage: slices.json",
            numbers=numbers(stored=str(index["tokenizer_digest"])[:12], now=str(digest)[:12]),
        )
    if known is not None and data.n_tokens != known:
        yield Finding(
            "ID-RANGE/vocabulary",
            "stop",
            "token-ids",
            location="token storage",
            numbers=numbers(data=data.n_tokens, tokenizer=known),
        )
    if rows is not None and known is not None:
        yield from embedding_fits(rows, known)


def embedding_fits(rows: int, known: int) -> Iterator[Finding]:
    """Rows of the embedding against the ids that the tokenizer can give."""
    if rows < known:
        yield Finding(
            "ID-RANGE/embedding-too-small",
            "stop",
            "token-ids",
            location="model: embedding",
            numbers=numbers(rows=rows, tokens=known),
        )
    elif rows > known + max(1024, known // 5):
        yield Finding(
            "ID-RANGE/embedding-too-large",
            "warn",
            "token-ids",
            location="model: embedding",
            numbers=numbers(rows=rows, tokens=known),
        )


def _shards(subject: Subject, data: Any) -> Iterator[Finding]:
    known = token_count(subject.tokenizer) if subject.tokenizer is not None else data.n_tokens
    for split in (data.train, data.val):
        for number, array in enumerate(split.arrays):
            where = f"token storage: {split.name}/{number:05}"
            if array.size == 0:
                continue
            top, low = int(array.max()), int(array.min())
            if low < 0 or top >= (known or data.n_tokens):
                outside = int((array >= known).sum() + (array < 0).sum())
                yield Finding(
                    "ID-RANGE/id-outside",
                    "stop",
                    "token-ids",
                    location=where,
                    numbers=numbers(largest=top, smallest=low, tokens=known, outside=outside),
                )
            if array.dtype.kind != "u" or np.iinfo(array.dtype).max < (known or 1) - 1:
                yield Finding(
                    "ID-RANGE/width",
                    "stop",
                    "token-ids",
                    location=where,
                    numbers=numbers(
                        dtype=str(array.dtype), tokens=known, largest=int(np.iinfo(array.dtype).max)
                    ),
                )
            mine = split.shards == number
            starts, lengths = split.starts[mine], split.lengths[mine]
            if int(lengths.sum()) != array.size or (
                len(starts)
                and (int(starts[0]) != 0 or bool((starts[1:] != starts[:-1] + lengths[:-1]).any()))
            ):
                yield Finding(
                    "ID-RANGE/offsets",
                    "stop",
                    "token-ids",
                    location=where,
                    numbers=numbers(listed=int(lengths.sum()), stored=int(array.size)),
                )
            zeros = float((array[1::2] == 0).mean()) if array.size > 3 else 0.0
            others = float((array[0::2] == 0).mean())
            if abs(zeros - others) > 0.3 and max(zeros, others) > 0.5:
                yield Finding(
                    "ID-RANGE/width-mismatch",
                    "stop",
                    "token-ids",
                    location=where,
                    numbers=numbers(zeros=max(zeros, others)),
                )


def _texts(subject: Subject, data: Any) -> Iterator[Finding]:
    """Decode every stored document and compare it with the corpus, character by character."""
    documents = subject.extra.get("documents")
    if documents is None or subject.tokenizer is None:
        return
    table = byte_table(subject.tokenizer, data.n_tokens)
    lossy = subject.declared.lossy
    for split in (data.train, data.val):
        wrong: dict[str, list[tuple[int, str, str, str]]] = {}
        count = compared = 0
        stride = max(1, -(-int(split.document_bytes.sum()) // COMPARED_BYTES))
        for number, document in enumerate(one for one in documents(split.name) if one.text):
            count += 1
            if number >= split.n_documents:
                continue
            _label(wrong, split, number, document)
            size = int(split.document_bytes[number])
            if size != len(document.text.encode()):
                _note(
                    wrong,
                    "bytes",
                    number,
                    split.slice_of(number),
                    str(len(document.text.encode())),
                    str(size),
                )
            if number % stride and number not in (0, split.n_documents - 1):
                continue
            compared += 1
            ids = split.document(number)
            problem = compare(ids, document.text, table, data.eos_id, lossy, subject.tokenizer)
            if problem is not None:
                _note(wrong, problem[0], number, split.slice_of(number), problem[1], problem[2])
        if count != split.n_documents:
            yield Finding(
                "TEXT-LOSS/documents-lost",
                "stop",
                "token-ids",
                location=f"token storage: {split.name}",
                numbers=numbers(corpus=count, stored=split.n_documents),
            )
        for kind, cases in sorted(wrong.items(), key=lambda item: -len(item[1])):
            number, slice_name, before, after = cases[0]
            slices = sorted({case[1] for case in cases})
            name = {
                "ids": "ID-RANGE/stored-differs",
                "bytes": "EVAL-VALIDITY/byte-count",
                "truncated": "TEXT-LOSS/truncated",
                "label": "EVAL-VALIDITY/label",
            }.get(kind, "TEXT-LOSS/stored-text")
            yield Finding(
                name,
                "stop",
                "token-ids",
                location=f"token storage: {split.name} document {number} ({slice_name})",
                numbers=numbers(
                    documents=len(cases),
                    compared=compared,
                    share=len(cases) / max(1, compared),
                    kind=kind,
                    slices=", ".join(slices),
                ),
                examples=(f"{before!r} → {after!r}",),
            )
            break


def _label(wrong: dict[str, list[tuple[int, str, str, str]]], split: Any, number: int, document: Any) -> None:
    """Slice and source as the corpus has them: every figure by domain rests on these. Small slices may have been pooled."""
    own = (f"{document.domain}.{document.language}", f"{document.domain}.other", "small.other")
    slice_name, source = split.slice_of(number), split.source_of(number)
    if slice_name not in (own if split.name == "val" else own[:1]):
        _note(wrong, "label", number, slice_name, own[0], slice_name)
    elif source != document.source:
        _note(wrong, "label", number, slice_name, str(document.source), str(source))


def _note(
    wrong: dict[str, list[tuple[int, str, str, str]]],
    kind: str,
    number: int,
    name: str,
    before: str,
    after: str,
) -> None:
    wrong.setdefault(kind, []).append((number, name, before, after))


def byte_table(tokenizer: Any, count: int) -> list[bytes]:
    """Raw bytes of every id."""
    return [tokenizer.token_bytes(number) for number in range(min(count, token_count(tokenizer) or count))]


def compare(
    ids: NDArray[Any], text: str, table: list[bytes], eos: int, lossy: str, tokenizer: Any
) -> tuple[str, str, str] | None:
    """What differs between stored ids and the text they should stand for: (kind, before, after), or None."""
    plain = ids.tolist()
    while plain and plain[-1] == eos:
        plain.pop()
    while plain and plain[0] == eos:
        plain.pop(0)
    # Special tokens among the text are the business of the boundary audit.
    special = set((getattr(tokenizer, "special", None) or {}).values())
    plain = [value for value in plain if value not in special]
    raw = text.encode()
    try:
        stored = b"".join(table[value] for value in plain)
    except IndexError:
        return "ids", "ids", "an id outside the vocabulary"
    if stored == raw or stored == declared_form(text, lossy).encode():
        return None
    after = stored.decode("utf-8", errors="replace")
    place = first_difference(text, after)
    shown = (text[place : place + 16], after[place : place + 16])
    fresh = tokenizer.encode(text)
    if len(plain) < len(fresh) and (
        fresh[: len(plain)] == plain or fresh[len(fresh) - len(plain) :] == plain
    ):
        return "truncated", f"{len(fresh)} tokens", f"{len(plain)} tokens"
    return (kind_of_change(text, after) if _alike(text, after) else "ids"), *shown


def _alike(before: str, after: str) -> bool:
    """True where two texts differ only as a normaliser makes them differ; wrong ids spell other letters."""
    return _letters(before) == _letters(after)


def _letters(text: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFKD", text).lower() if char.isalnum())


def boundaries(subject: Subject) -> Iterator[Finding]:
    """T3: each stored document ends with exactly one end token, and holds no other special one."""
    data = subject.need("data", "token data")
    eos = data.eos_id
    special: dict[str, int] = dict(getattr(subject.tokenizer, "special", {}) or {})
    other = np.asarray(sorted(value for value in special.values() if value != eos), dtype=np.int64)
    for split in (data.train, data.val):
        for number, array in enumerate(split.arrays):
            mine = split.shards == number
            ends = split.starts[mine] + split.lengths[mine] - 1
            where = f"token storage: {split.name}/{number:05}"
            found = np.flatnonzero(np.asarray(array) == eos)
            missing = int((np.asarray(array)[ends] != eos).sum()) if len(ends) else 0
            inside = int(len(found) - (len(ends) - missing))
            counts = numbers(documents=len(ends), missing=missing, inside=inside, eos=eos)
            if missing:
                yield Finding(
                    "BOUNDARY-TOKEN/eos-missing", "stop", "boundaries", location=where, numbers=counts
                )
            elif inside:
                doubled = int((np.diff(found) == 1).sum())
                name = "BOUNDARY-TOKEN/eos-doubled" if doubled else "BOUNDARY-TOKEN/eos-inside"
                yield Finding(
                    name, "stop", "boundaries", location=where, numbers={**counts, "doubled": doubled}
                )
            if len(other):
                strange = int(np.isin(np.asarray(array), other).sum())
                if strange:
                    yield Finding(
                        "BOUNDARY-TOKEN/special-inside",
                        "stop",
                        "boundaries",
                        location=where,
                        numbers=numbers(ids=strange),
                    )
            empty = int((split.lengths[mine] < 2).sum())
            if empty:
                grade: Grade = "warn" if empty > max(2, 0.01 * len(ends)) else "note"
                yield Finding(
                    "CORPUS/empty-documents",
                    grade,
                    "boundaries",
                    location=where,
                    numbers=numbers(empty=empty, documents=len(ends)),
                )


def batch_ids(subject: Subject) -> Iterator[Finding]:
    """T2 on batches: ids and labels inside the embedding and the tokenizer, integers wide enough, not one constant."""
    subject.need_example()
    known = token_count(subject.tokenizer) if subject.tokenizer is not None else None
    rows = subject.model.embedding_rows if subject.model is not None else None
    if rows is not None and known is not None and subject.extra.get("data") is None:
        yield from embedding_fits(rows, known)
    limit = min(value for value in (known, rows, 1 << 62) if value is not None)
    for index, example in enumerate(subject.examples):
        for name, tensor in (("ids", example.ids), ("labels", example.labels)):
            if tensor is None:
                continue
            values = tensor if name == "ids" else tensor[tensor >= 0]
            ignored = int(tensor.min()) if name == "labels" else 0
            if values.numel() and (int(values.max()) >= limit or int(values.min()) < 0):
                yield Finding(
                    "ID-RANGE/id-outside",
                    "stop",
                    "token-ids",
                    location=f"rows: batch {index} {name}",
                    numbers=numbers(
                        largest=int(values.max()),
                        smallest=int(values.min()),
                        tokens=limit,
                        outside=int((values >= limit).sum()),
                    ),
                )
                return
            if name == "labels" and ignored < 0 and bool(((tensor < 0) & (tensor != -100)).any()):
                yield Finding(
                    "ID-RANGE/label-negative",
                    "stop",
                    "token-ids",
                    location=f"rows: batch {index} labels",
                    numbers=numbers(smallest=ignored),
                )
                return
    yield from _pattern(subject)


def _pattern(subject: Subject) -> Iterator[Finding]:
    """Every second id zero: a file written with one width of integer and read with another."""
    import torch

    ids = torch.cat([example.ids.reshape(-1)[:4096].cpu() for example in subject.examples[:16]])
    if ids.numel() < 256:
        return
    odd, even = float((ids[1::2] == 0).float().mean()), float((ids[0::2] == 0).float().mean())
    if abs(odd - even) > 0.3 and max(odd, even) > 0.5:
        yield Finding(
            "ID-RANGE/width-mismatch",
            "stop",
            "token-ids",
            location="rows",
            numbers=numbers(zeros=max(odd, even)),
        )
    if int(torch.unique(ids).numel()) == 1:
        yield Finding(
            "ID-RANGE/constant", "stop", "token-ids", location="rows", numbers=numbers(id=int(ids[0]))
        )
