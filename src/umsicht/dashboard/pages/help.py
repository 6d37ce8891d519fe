"""Every metric, verdict and finding, explained in a few sentences, offline."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from umsicht.dashboard.context import lang_of, page
from umsicht.dashboard.verdicts import SIGNS, TONES
from umsicht.findings import entry, known_ids, unmeasured
from umsicht.words import catalogue, t

METRICS = (
    "train/loss", "val/all/loss", "val/<slice>/bpb", "train_eval/loss", "derived/gap", "train/grad_norm", "train/clipped", "train/lr",
    "train/tokens_per_s", "train/data_wait_s", "train/mfu", "train/epoch", "train/active_targets", "tokens",
)  # fmt: skip
VERDICTS = (
    "healthy",
    "both-high",
    "overfitting",
    "too-good",
    "diverged",
    "plateau",
    "saw-tooth",
    "level-shift-up",
    "level-shift-down",
    "domain-divergence",
    "uncertain",
    "too-early",
)


def help_page(request: Request) -> Response:
    """The page."""
    lang = lang_of(request)
    return page(
        request,
        "help.html",
        section="help",
        metrics=[(name, t(f"dashboard.metric.{_slug(name)}", lang=lang)) for name in METRICS],
        verdicts=[verdict_line(code, lang) for code in VERDICTS],
        findings=families(lang),
    )


def _slug(name: str) -> str:
    return name.replace("/", ".").replace("<", "").replace(">", "")


def verdict_line(code: str, lang: str) -> dict[str, str]:
    """A verdict with its sign and the sentence that explains it."""
    tone = TONES.get(code, "")
    diagnose = catalogue(lang, "diagnose")
    title = str(
        diagnose.get(f"verdict.{code}.title")
        or diagnose.get(f"title.{code}")
        or t(f"dashboard.verdict.{code}", lang=lang)
    )
    return {
        "code": code,
        "tone": tone,
        "sign": SIGNS[tone],
        "title": title,
        "about": t(f"dashboard.verdict.{code}.about", lang=lang),
    }


def families(lang: str) -> list[tuple[str, list[dict[str, Any]]]]:
    """The catalogue of findings, by family."""
    made: dict[str, list[dict[str, Any]]] = {}
    for finding_id in known_ids():
        words = entry(finding_id, lang) or {}
        made.setdefault(finding_id.split("/")[0], []).append(
            {
                "id": finding_id,
                "title": unmeasured(words.get("title", finding_id)),
                "why": unmeasured(words.get("why", "")),
                "causes": [unmeasured(cause) for cause in words.get("causes", ())],
                "next": unmeasured(words.get("next", "")),
            }
        )
    return sorted(made.items())


ROUTES = [Route("/help", help_page)]
