"""A partition while decisions are carried out: which documents are left, what their texts are now, and why the others went."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from umsicht.corpus.document import DROPPED_SCHEMA
from umsicht.corpus.index import Rows, hex_id, text_hash
from umsicht.corpus.kernels.spans import Spans, spans_of
from umsicht.corpus.ledger import Ledger


@dataclass
class Carry:
    """One partition. Documents are rows; `spots` are what is cut out of them, as byte ranges of the text as it was read."""

    table: pa.Table
    rows: Rows
    validation: npt.NDArray[np.bool_]
    min_document_bytes: int
    ledger: Ledger = field(default_factory=Ledger)

    def __post_init__(self) -> None:
        self.spans: Spans = spans_of(self.table.column("text"))
        self.alive = np.ones(len(self.rows), bool)
        self.texts: dict[int, bytes] = {}
        self.spots: dict[int, list[tuple[int, int]]] = {}
        self.reasons: list[tuple[int, str, str, str]] = []
        self.fragments: list[tuple[int, str, str]] = []

    def drop(self, row: int, stage: str, reason: str, detail: str) -> None:
        """One document goes; only the first reason counts."""
        if self.alive[row]:
            self.alive[row] = False
            self.reasons.append((row, stage, reason, detail))

    def bytes_of(self, row: int) -> bytes:
        """A document's text as it is now."""
        if row in self.texts:
            return self.texts[row]
        return self.spans.buffer[self.spans.starts[row] : self.spans.ends[row]].tobytes()

    def cut(self, spots: Iterable[tuple[int, int, int]], stage: str) -> None:
        """Cut ranges (row, start, end) with their line ends; a document of which too little is left goes whole."""
        touched = set()
        for row, start, end in spots:
            self.spots.setdefault(row, []).append((start, end))
            touched.add(row)
        for row in sorted(touched):
            before = len(self.bytes_of(row))
            text = self.spans.buffer[self.spans.starts[row] : self.spans.ends[row]].tobytes()
            left = without(text, self.spots[row])
            if len(left) < self.min_document_bytes:
                self.drop(row, stage, "nothing-left", f"{len(left)} of {before} bytes left")
            else:
                self.texts[row] = left

    def current(self, mask: npt.NDArray[np.bool_]) -> pa.Table:
        """The chosen documents with their texts, ids and sizes as they are now."""
        chosen = np.flatnonzero(mask)
        others = self.table.drop_columns(["text"]).take(pa.array(chosen))
        changed = [(place, self.texts[row]) for place, row in enumerate(chosen.tolist()) if row in self.texts]
        places, texts = [place for place, _ in changed], [text for _, text in changed]
        if changed:
            values = [text_hash(text) for text in texts]
            names = [hex_id(value >> 64, value & 0xFFFFFFFFFFFFFFFF) for value in values]
            for name, column in (("id", names), ("bytes", [len(text) for text in texts])):
                others = _with(others, name, np.array(places), column)
        spans = self.spans.take(chosen).replaced(places, [text.decode() for text in texts])
        columns = {name: others.column(name) for name in others.schema.names} | {"text": spans.column()}
        return pa.table([columns[name] for name in self.table.schema.names], self.table.schema)

    def sizes(self) -> npt.NDArray[np.int64]:
        """UTF-8 bytes of every document as it is now."""
        sizes = self.rows["bytes"].astype(np.int64)
        for row, text in self.texts.items():
            sizes[row] = len(text)
        return sizes

    def count(self, stage: str, mask: npt.NDArray[np.bool_] | None = None) -> None:
        """Enter what is left into the ledger."""
        left = self.alive if mask is None else mask
        sizes = self.sizes()
        names = self.table.column("source")
        for number in np.unique(self.rows["source"]):
            inside = self.rows["source"] == number
            name = names[int(np.argmax(inside))].as_py()
            mine = left & inside
            self.ledger.add(name, stage, int(mine.sum()), int(sizes[mine].sum()))

    def dropped(self) -> pa.Table:
        """Everything that went, each with stage, reason and detail: whole documents, then pieces cut out of documents that stay."""
        base = [name for name in DROPPED_SCHEMA.names if name in self.table.schema.names]
        whole = self.table.select(base).take(pa.array([row for row, *_ in self.reasons], pa.int64()))
        labels = list(zip(*[reason[1:] for reason in self.reasons], strict=True)) or [(), (), ()]
        for name, values in zip(("stage", "reason", "detail"), labels, strict=True):
            whole = whole.append_column(name, pa.array(values, pa.string()))
        pieces = (
            self.table.select(base)
            .take(pa.array([row for row, *_ in self.fragments], pa.int64()))
            .to_pylist()
        )
        for piece, (_, text, detail) in zip(pieces, self.fragments, strict=True):
            piece.update(
                text=text,
                bytes=len(text.encode()),
                stage="paragraphs",
                reason="repeated",
                detail=f"cut out of {piece['id']}; {detail}",
            )
        schema = DROPPED_SCHEMA
        return pa.concat_tables(
            [whole.select(schema.names).cast(schema), pa.Table.from_pylist(pieces, schema)]
        )


def _with(table: pa.Table, name: str, places: npt.NDArray[np.int64], values: list[Any]) -> pa.Table:
    """The table with other values at some places of a column."""
    mask = np.zeros(table.num_rows, bool)
    mask[places] = True
    kind = table.schema.field(name)
    column = table.column(name).combine_chunks()
    new = pc.replace_with_mask(column, pa.array(mask), pa.array(values, kind.type))
    return table.set_column(table.schema.get_field_index(name), kind, new)


def without(text: bytes, spots: Iterable[tuple[int, int]]) -> bytes:
    """`text` without some ranges and the line ends after them; blank lines at its ends go too."""
    kept, position = [], 0
    for start, end in sorted(spots):
        if start > position:
            kept.append(text[position:start])
        position = max(position, end)
        while position < len(text) and text[position] == 0x0A:
            position += 1
    kept.append(text[position:])
    return b"".join(kept).strip(b"\n")
