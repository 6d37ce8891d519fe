"""A conversation that fits into the context: the oldest turns go first, the system message stays."""

from __future__ import annotations

from dataclasses import dataclass, field

from umsicht.findings import UserError
from umsicht.tokenizer.chat import prompt_ids
from umsicht.words import t

from .subject import Subject


def require_chat(subject: Subject) -> None:
    """Raises `UserError` for a base model, which was never taught to answer."""
    if not subject.is_chat:
        raise UserError(
            t("finetune.not_chat"),
            where=subject.run.name,
            why=t("finetune.not_chat_why"),
            fix=t("finetune.not_chat_fix"),
        )


@dataclass
class Talk:
    """Messages so far."""

    subject: Subject
    system: str = ""
    turns: list[dict[str, str]] = field(default_factory=list)

    def prompt(self, room: int) -> tuple[list[int], int]:
        """Ids of the prompt that leave `room` tokens for the answer, and how many old messages were dropped for it.

        Raises `UserError` where the last message alone does not fit.
        """
        limit = self.subject.model.config.seq_len - room
        dropped = 0
        while True:
            head = [{"role": "system", "content": self.system}] if self.system else []
            ids = prompt_ids([*head, *self.turns[dropped:]], self.subject.tokenizer)
            if len(ids) <= limit:
                return ids, dropped
            if dropped + 2 >= len(self.turns) + 1:
                raise UserError(t("finetune.chat_too_long", seq_len=self.subject.model.config.seq_len))
            dropped += 2

    def say(self, role: str, content: str) -> None:
        """Add a message."""
        self.turns.append({"role": role, "content": content})
