"""The page of comparisons shows losses and gaps as plainly as gains, and each thing once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.common import Bench
from bench.peers.__main__ import sources, tell
from bench.peers.rows import Part, from_page, rows_of

DEDUPE = Part("corpus", "dedupe", ("daft", "rensa"))
QUALITY = Part("quality", "bits per byte", ("litgpt",))


def figure(name: str, value: float | None, target: str = "", note: str = "") -> dict[str, Any]:
    return {"name": name, "value": value, "target": target, "unit": "", "note": note}


def found(**values: float | None) -> dict[str, Any]:
    figures = [
        figure(f"times faster than {peer}", value, ">= 2", "2.9 to 3.1; 17 MB/s")
        for peer, value in values.items()
    ]
    return {"quick": True, "figures": figures, "code": {"git_commit": "another"}}


def quality(**values: float | None) -> dict[str, Any]:
    names = {"short": "24 s", "long": "2 min"}
    return {
        "figures": [
            figure(f"{names[key]}: litgpt's bits per byte - {ours}'s at 0.5 of its time", value, ">= 0")
            for key, value in values.items()
            for ours in ("umsicht", "umsicht-fast")
        ]
    }


def page(part: Part, result: dict[str, Any] | None) -> tuple[Bench, list[str]]:
    bench = Bench("peers", "", table=False)
    tell(bench, rows_of(part, result))
    return bench, bench.sections


def test_a_comparison_that_misses_its_target_is_named_as_lost() -> None:
    _, (ahead, lost, _) = page(DEDUPE, found(daft=1.5, rensa=7.0))
    assert "daft" in lost and "rensa" not in lost
    assert "rensa" in ahead and "daft" not in ahead


def test_a_peer_that_is_ahead_is_lost_to_even_without_a_bar() -> None:
    _, (_, lost, _) = page(DEDUPE, {"figures": [figure("ours / daft", 0.9)]})
    assert "0.9 times" in lost


def test_a_peer_without_a_figure_is_not_measured_and_never_ok() -> None:
    bench, (ahead, lost, unknown) = page(DEDUPE, found(daft=3.0))
    assert "rensa" in unknown and "rensa" not in ahead + lost
    assert [figure.verdict for figure in bench.figures] == ["ok", "not measured"]


def test_nothing_at_all_gives_a_page_that_says_so() -> None:
    bench, (_, _, unknown) = page(DEDUPE, None)
    assert all(figure.verdict == "not measured" for figure in bench.figures)
    assert "daft" in unknown and "rensa" in unknown and "make bench-corpus" in unknown


def test_the_best_comes_first_and_keeps_its_spread_without_the_absolute_rate() -> None:
    _, (ahead, _, _) = page(DEDUPE, found(daft=3.0, rensa=7.0))
    assert ahead.index("rensa") < ahead.index("daft")
    assert "2.9 to 3.1" in ahead and "MB/s" not in ahead


def test_a_budget_that_was_not_run_is_said_once_with_its_variable() -> None:
    _, (ahead, _, unknown) = page(QUALITY, quality(short=0.25, long=None))
    assert ahead.count("+0.250 bits per byte") == 2
    assert unknown.count("2 min") == 2  # in its name and in the command
    assert unknown.count("litgpt") == 1 and 'QUALITY_BUDGETS="2 min"' in unknown


def test_a_missing_repository_is_said_once_with_its_variable() -> None:
    part = Part("quality", "bits per byte", ("litgpt",), "SOME_DIR")
    _, (_, _, unknown) = page(part, quality(short=None, long=None))
    assert unknown.count("litgpt") == 1 and "SOME_DIR" in unknown


def test_a_repository_that_is_there_lacks_a_budget_and_no_variable() -> None:
    part = Part("quality", "bits per byte", ("litgpt",), "SOME_DIR")
    result = quality(long=None)
    for one in result["figures"]:
        one["note"] = "seeds run: 0 of litgpt, 0 of umsicht, of 3"
    _, (_, _, unknown) = page(part, result)
    assert "SOME_DIR" not in unknown and 'QUALITY_BUDGETS="2 min"' in unknown


def test_a_shortened_or_older_measurement_is_marked() -> None:
    text = sources({"corpus": found(daft=3.0)})
    assert "shortened" in text and "other code" in text


def test_a_page_is_read_back_as_the_bench_that_wrote_it(tmp_path: Path) -> None:
    bench = Bench("made", "About it.")
    bench.figure(
        "ours / litgpt, float32", 1.25, ">= 1.15", note="700 tokens a processor second; lower 95 % bound 1.1"
    )
    bench.figure("ours / nanogpt, float32", None, ">= 1.15", note="not here: NANOGPT_DIR is not set")
    bench.figure("share of the product ceiling", 75.482, "", unit="%")
    page = tmp_path / "made.md"
    page.write_text(bench._page(False), encoding="utf-8")
    found = from_page(page)
    assert found is not None
    assert [(f["name"], f["value"], f["target"], f["unit"], f["note"]) for f in found["figures"]] == [
        (f.name, None if f.value is None else round(f.value, 2), f.target, f.unit, f.note)
        for f in bench.figures
    ]
    assert found["made"]


def test_a_page_that_is_not_there_or_tells_no_figures_gives_nothing(tmp_path: Path) -> None:
    (tmp_path / "words.md").write_text("# Words only\n")
    assert from_page(tmp_path / "words.md") is None
    assert from_page(tmp_path / "absent.md") is None
