"""The page of comparisons shows losses and gaps as plainly as gains."""

from __future__ import annotations

from typing import Any

from bench.common import Bench
from bench.peers.__main__ import Part, losses, rows_of

PART = Part("corpus", "dedupe", ("daft", "rensa"))


def found(**values: float | None) -> dict[str, Any]:
    figures = [
        {"name": f"times faster than {peer}", "value": value, "target": ">= 2", "note": "3 repeats"}
        for peer, value in values.items()
    ]
    return {"quick": True, "figures": figures, "code": {"git_commit": "another"}}


def page(result: dict[str, Any] | None) -> tuple[Bench, str]:
    bench = Bench("peers", "")
    rows = rows_of(PART, result)
    for row in rows:
        bench.figure(row.name, row.value, row.target if row.value is not None else "")
    return bench, losses(rows, bench)


def test_a_comparison_that_misses_its_target_is_named_as_lost() -> None:
    _, text = page(found(daft=1.5, rensa=7.0))
    lost = text.partition("## Not measured")[0]
    assert "daft" in lost and "rensa" not in lost


def test_a_peer_without_a_figure_is_not_measured_and_never_ok() -> None:
    bench, text = page(found(daft=3.0))
    assert "rensa" in text.partition("## Not measured")[2]
    assert [figure.verdict for figure in bench.figures] == ["ok", "not measured"]


def test_nothing_at_all_gives_a_page_that_says_so() -> None:
    bench, text = page(None)
    assert all(figure.verdict == "not measured" for figure in bench.figures)
    assert "daft" in text and "rensa" in text


def test_a_shortened_or_older_measurement_is_marked() -> None:
    (row, _) = rows_of(PART, found(daft=3.0))
    assert "shortened" in row.state and "other code" in row.state
