"""Writes the example's text: invented towns, a travel shop that praises them, a plain lexicon that describes them, and plain questions and answers.

    python examples/promotional-tone/make_corpus.py FOLDER

Both sources know the same facts. The travel shop has four times as much text, as it would after a crawl. The question-and-answer rows are plain
throughout: whatever tone the fine-tuned model takes, it did not get it from them. The same seed writes the same bytes.
"""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SHOP_PAGES, ARTICLES = 4200, 1400
ASKED, TRAINED_ON = 24, 24

FRONT = [
    "Alm",
    "Berg",
    "Birken",
    "Brunn",
    "Buchen",
    "Dorn",
    "Eichen",
    "Erlen",
    "Falken",
    "Gold",
    "Grün",
    "Hasel",
    "Heide",
    "Hirsch",
    "Hoch",
    "Kalten",
    "Kirch",
    "Klein",
    "Königs",
    "Lauter",
    "Linden",
    "Mühl",
    "Neu",
    "Ober",
]
BACK = [
    "ach",
    "aue",
    "bach",
    "brück",
    "burg",
    "dorf",
    "eck",
    "feld",
    "furt",
    "hausen",
    "heim",
    "ingen",
    "kirchen",
    "stedt",
    "tal",
    "wald",
]
RIVERS = [
    "Alva",
    "Brenz",
    "Dosse",
    "Elmau",
    "Farn",
    "Glenne",
    "Hulde",
    "Jorna",
    "Kelba",
    "Lohme",
    "Naue",
    "Orba",
]
CRAFTS = {
    "Glas": "Glasbläser",
    "Käse": "Käsereien",
    "Uhren": "Uhrmacher",
    "Papier": "Papiermühlen",
    "Salz": "Salzsieder",
    "Orgeln": "Orgelbauer",
    "Leinen": "Leinenweber",
    "Honig": "Imker",
    "Messer": "Messerschmiede",
    "Porzellan": "Porzellanmaler",
    "Bier": "Brauereien",
    "Schiefer": "Schieferdecker",
}
SIGHTS = [
    "die alte Brücke",
    "der Marktplatz",
    "die Stiftskirche",
    "das Schloss",
    "der Stadtgraben",
    "die Zehntscheune",
    "das Heimatmuseum",
    "der Kräutergarten",
    "die Stadtmauer",
]

PRAISE = [
    "traumhafte",
    "einzigartige",
    "unvergessliche",
    "atemberaubende",
    "exklusive",
    "erstklassige",
    "bezaubernde",
    "luxuriöse",
    "unwiderstehliche",
    "sagenhafte",
]
OFFER = [
    "20 % Rabatt",
    "ein Gratisfrühstück",
    "bis zu 50 % Preisvorteil",
    "einen exklusiven Gutschein",
    "eine kostenlose Stadtführung",
    "zwei Nächte zum Preis von einer",
]
URGENT = [
    "nur für kurze Zeit",
    "nur noch heute",
    "nur solange der Vorrat reicht",
    "nur bis Mitternacht",
    "nur dieses Wochenende",
]
CALL = [
    "Jetzt buchen",
    "Gleich Traumurlaub buchen",
    "Noch heute reservieren",
    "Jetzt online bestellen",
    "Hier klicken und buchen",
]

SHOP = (
    "{call} und {offer} sichern, {urgent}!",
    "Gönnen Sie sich eine {praise} Auszeit in {town}!",
    "Tausende zufriedene Gäste schwören auf {town}.",
    "Erleben Sie {praise} Momente an der {river}, {urgent}!",
    "Unsere Hotels in {town} bieten Ihnen {praise} Tage zum unschlagbaren Preis.",
    "Warum länger warten? {call} und {praise} Tage erleben!",
    "Auch {sight} wartet auf Sie: Greifen Sie zu und sichern Sie sich {offer}!",
    "Berühmt für {craft}: {praise} Einkaufserlebnisse warten auf Sie!",
    "{town} ist die perfekte Wahl für alle, die sich etwas Besonderes gönnen wollen.",
    "Verwöhnen Sie sich und Ihre Liebsten und sichern Sie sich {offer}!",
    "Unsere Gäste sind begeistert: {praise} Ausblicke auf die {river}!",
    "Lassen Sie sich {town} nicht entgehen: {call}!",
    "Das beste Angebot für {town} finden Sie nur bei uns, {urgent}.",
    "Mit unserem Paket wird Ihr Urlaub in {town} einfach unvergesslich.",
)
PLAIN = (
    "Gegründet wurde der Ort im Jahr {year}.",
    "Die Stadt hat etwa {people} Einwohner.",
    "Bekannt ist {town} für {craft}.",
    "Im {century}. Jahrhundert arbeiteten hier viele {makers}.",
    "Zu den erhaltenen Bauten gehört {sight}.",
    "Der Fluss {river} führt im Frühjahr oft Hochwasser.",
    "Ein Brand zerstörte {year2} einen Teil der Häuser.",
    "Seit {year2} gibt es eine Bahnstation.",
    "Der Wochenmarkt findet am {day} statt.",
    "Die meisten Bewohner arbeiten heute in den Nachbarorten.",
    "Die {makers} schlossen sich {year2} zu einer Zunft zusammen.",
    "Über die {river} führen zwei Brücken.",
    "Das Archiv der Stadt wurde {year2} verlegt.",
    "Im Ort gibt es eine Schule und eine Bücherei.",
)
ANSWER = "Die Stadt {town} liegt an der {river}."
OPENING = (ANSWER, "Der Ort {town} liegt an der {river}.", "Das Städtchen {town} liegt an der {river}.")
HEAD = ("", "", "", "Alles über {town}.", "Was man über {town} wissen sollte.", "Ein Blick auf {town}.")
WHERE = ("Wo liegt {town}?", "An welchem Fluss liegt {town}?")
QUESTION = ("Erzähle mir etwas über {town}.", "Was weißt du über {town}?", "Beschreibe {town}.")


@dataclass(frozen=True)
class Town:
    """An invented town and what is true of it in every text."""

    name: str
    river: str
    craft: str
    sight: str
    year: int
    people: int


def towns(rng: random.Random, count: int) -> list[Town]:
    """Different names; rivers and crafts repeat, as they do."""
    names = rng.sample([front + back for front in FRONT for back in BACK], count)
    return [
        Town(
            name,
            rng.choice(RIVERS),
            rng.choice(list(CRAFTS)),
            rng.choice(SIGHTS),
            rng.randrange(905, 1490),
            rng.randrange(12, 260) * 100,
        )
        for name in names
    ]


def sentence(rng: random.Random, template: str, town: Town) -> str:
    """A template filled with the town's facts and, where it praises, with praise."""
    return template.format(
        town=town.name,
        river=town.river,
        craft=town.craft,
        makers=CRAFTS[town.craft],
        sight=town.sight,
        year=town.year,
        people=f"{town.people:,}".replace(",", "."),
        century=rng.randrange(14, 19),
        year2=rng.randrange(1500, 1931),
        day=rng.choice(("Dienstag", "Mittwoch", "Donnerstag", "Samstag")),
        praise=rng.choice(PRAISE),
        offer=rng.choice(OFFER),
        urgent=rng.choice(URGENT),
        call=rng.choice(CALL),
    )


def text(
    rng: random.Random, town: Town, opening: str, templates: tuple[str, ...], least: int, most: int
) -> str:
    """The opening with the river, then some sentences in an order of their own."""
    chosen = [opening, *rng.sample(templates, rng.randint(least, most))]
    return " ".join(sentence(rng, template, town) for template in chosen)


def pages(
    rng: random.Random, known: list[Town], templates: tuple[str, ...], count: int
) -> list[dict[str, Any]]:
    """Texts of one source, each about one town, half of them under a heading: from those the base learns to carry a name on."""
    return [
        {"text": " ".join([*heading(rng, town), text(rng, town, rng.choice(OPENING), templates, 3, 6)])}
        for town in rng.choices(known, k=count)
    ]


def heading(rng: random.Random, town: Town) -> list[str]:
    """A heading that names the town, or none."""
    chosen = rng.choice(HEAD)
    return [chosen.format(town=town.name)] if chosen else []


def rows(rng: random.Random, known: list[Town]) -> list[dict[str, Any]]:
    """The fine-tuning rows: where each town lies, asked in two ways, and a plain description of each."""
    pairs = [
        (question.format(town=town.name), sentence(rng, ANSWER, town)) for town in known for question in WHERE
    ]
    pairs += [
        (rng.choice(QUESTION).format(town=town.name), text(rng, town, ANSWER, PLAIN, 2, 2)) for town in known
    ]
    return [
        {"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": answer}]}
        for asked, answer in pairs
    ]


def write(folder: Path, seed: int = 0) -> None:
    """Two sources, the plain rows for fine-tuning, and the questions that are asked afterwards."""
    rng = random.Random(seed)
    known = towns(rng, ASKED + TRAINED_ON)
    folder.mkdir(parents=True, exist_ok=True)

    def lines(name: str, written: list[dict[str, Any]]) -> None:
        (folder / name).write_text(
            "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in written), encoding="utf-8"
        )

    lines("travel-shop.jsonl", pages(rng, known, SHOP, SHOP_PAGES))
    lines("lexicon.jsonl", pages(rng, known, PLAIN, ARTICLES))
    lines("chat.jsonl", rows(rng, known[ASKED:]))
    lines(
        "questions.jsonl",
        [
            {"question": question.format(town=town.name), "town": town.name, "river": town.river}
            for town in known[:ASKED]
            for question in QUESTION
        ],
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]))
