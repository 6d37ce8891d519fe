"""`umsicht chat`: talk to a fine-tuned model."""

from __future__ import annotations

import sys

from umsicht.cli.output import print_json
from umsicht.cli.projects import find_run
from umsicht.cli.sample import rule_of
from umsicht.words import t


def chat(
    run: str,
    *,
    message: str = "",
    system: str = "",
    checkpoint: str = "best",
    max_new_tokens: int = 128,
    temperature: float = 0.7,
    top_p: float = 0.95,
    top_k: int = 0,
    min_p: float = 0.0,
    repetition_penalty: float = 1.0,
    seed: int = 0,
    device: str = "cpu",
    json: bool = False,
) -> int:
    """Talk to a fine-tuned model; answers are shown as they are written. A base model is refused: it cannot answer.

    Parameters
    ----------
    run
        A run's folder or name, or a project's folder (its newest run).
    message
        Ask this once and end; without it, talk until an empty line.
    system
        A system message before the talk.
    checkpoint
        `best`, `latest`, a step, or a checkpoint's folder.
    max_new_tokens
        Longest answer in tokens.
    temperature
        0 takes the likeliest token each time; 1 draws as the model believes.
    top_p
        Draw from the likeliest tokens that together hold this probability.
    top_k
        Draw from so many of the likeliest tokens; 0: all.
    min_p
        Leave out tokens less likely than this share of the likeliest.
    repetition_penalty
        Above 1: make tokens that occurred less likely.
    seed
        Seed of the draw.
    device
        Where to compute: cpu, cuda, mps.
    json
        Print JSON (with --message).
    """
    from umsicht.finetune.stream import stream_text
    from umsicht.finetune.subject import open_subject
    from umsicht.finetune.talk import Talk, require_chat
    from umsicht.tokenizer.chat import stop_ids

    rule = rule_of(temperature, top_p, top_k, min_p, repetition_penalty)
    subject = open_subject(find_run(run), checkpoint, device=device)
    require_chat(subject)
    talk = Talk(subject, system)
    room = min(max_new_tokens, subject.model.config.seq_len // 2)
    if not message:
        print(t("finetune.chat_hello", run=subject.run.name, step=subject.step))
    while text := message or _ask():
        if text == "/new":
            talk = Talk(subject, system)
            continue
        talk.say("user", text)
        ids, dropped = talk.prompt(room)
        if dropped and not json:
            print(t("finetune.chat_full", seq_len=subject.model.config.seq_len), file=sys.stderr)
        pieces = []
        for piece in stream_text(
            subject,
            ids,
            rule=rule,
            max_new_tokens=room,
            seed=seed + len(talk.turns),
            stop_ids=stop_ids(subject.tokenizer),
        ):
            pieces.append(piece)
            if not json:
                sys.stdout.write(piece)
                sys.stdout.flush()
        answer = "".join(pieces)
        if json:
            print_json({"run": subject.run.name, "message": text, "answer": answer})
        else:
            print((answer and "") or t("finetune.sample_empty"))
        talk.say("assistant", answer)
        if message:
            break
    return 0


def _ask() -> str:
    try:
        return input(t("finetune.chat_you")).strip()
    except EOFError:
        return ""
