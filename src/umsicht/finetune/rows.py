"""What a row of fine-tuning data means, whatever its dialect: a conversation, a preference, a problem."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Message = dict[str, str]

ROLES = {
    "system": "system",
    "user": "user",
    "human": "user",
    "prompter": "user",
    "assistant": "assistant",
    "gpt": "assistant",
    "model": "assistant",
    "bot": "assistant",
}
"""What data files call the speakers → what the chat renderer calls them."""


class BadRow(ValueError):
    """The row cannot be used; `reason` is a key of the catalogue (`finetune.row.<reason>`), `detail` fills it."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Conversation:
    """Messages that end with the assistant's answer."""

    id: str
    messages: tuple[Message, ...]


@dataclass(frozen=True)
class Preference:
    """A prompt and two answers, the first of which is preferred."""

    id: str
    prompt: tuple[Message, ...]
    chosen: str
    rejected: str


@dataclass(frozen=True)
class Problem:
    """A prompt to be answered; `answer` is what is checked against, empty where a reward model judges."""

    id: str
    prompt: tuple[Message, ...]
    answer: str


Row = Conversation | Preference | Problem


def detect(row: Mapping[str, Any]) -> str:
    """The dialect of a row by its keys. Raises `BadRow` where none fits."""
    keys = set(row)
    if "chosen" in keys and "rejected" in keys:
        return "preferences"
    if "messages" in keys:
        return "messages"
    if "conversations" in keys:
        return "sharegpt"
    if "instruction" in keys and keys & {"output", "response"}:
        return "alpaca"
    if keys & {"question", "prompt"}:
        return "problems"
    raise BadRow("unknown_keys", ", ".join(sorted(keys)[:6]))


def parse(row: Any, dialect: str, identity: str) -> Row:
    """One row as what it means. Raises `BadRow` with the reason."""
    if not isinstance(row, Mapping):
        raise BadRow("not_an_object", type(row).__name__)
    dialect = detect(row) if dialect == "auto" else dialect
    try:
        return _PARSERS[dialect](row, identity)
    except KeyError as error:
        raise BadRow("missing_key", str(error.args[0])) from error


def _conversation(row: Mapping[str, Any], identity: str) -> Row:
    return Conversation(identity, _checked(_messages(row["messages"])))


def _sharegpt(row: Mapping[str, Any], identity: str) -> Row:
    messages = _messages(row["conversations"])
    if row.get("system"):
        messages = ({"role": "system", "content": _text(row["system"])}, *messages)
    return Conversation(identity, _checked(messages))


def _alpaca(row: Mapping[str, Any], identity: str) -> Row:
    messages: list[Message] = []
    if row.get("system"):
        messages.append({"role": "system", "content": _text(row["system"])})
    for turn in row.get("history") or ():
        asked, answered = turn
        messages.append({"role": "user", "content": _text(asked)})
        messages.append({"role": "assistant", "content": _text(answered)})
    extra = row.get("input") or row.get("context") or ""
    question = _text(row["instruction"]) + (f"\n\n{_text(extra)}" if extra else "")
    answer = _text(row["output"] if "output" in row else row["response"])
    messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    return Conversation(identity, _checked(tuple(messages)))


def _preference(row: Mapping[str, Any], identity: str) -> Row:
    chosen, rejected = row["chosen"], row["rejected"]
    prompt = _prompt(row)
    if isinstance(chosen, Sequence) and not isinstance(chosen, str) and not prompt:
        before, *_ = _split(_messages(chosen)), _split(_messages(rejected))
        if before[0] != _split(_messages(rejected))[0]:
            raise BadRow("prompts_differ")
        prompt = before[0]
    answers = [_answer(chosen), _answer(rejected)]
    if not prompt:
        raise BadRow("no_prompt")
    if answers[0] == answers[1]:
        raise BadRow("answers_equal")
    _checked((*prompt, {"role": "assistant", "content": answers[0]}))
    return Preference(identity, prompt, answers[0], answers[1])


def _problem(row: Mapping[str, Any], identity: str) -> Row:
    question = row["question"] if "question" in row else row["prompt"]
    prompt = _prompt({"prompt": question})
    if not prompt:
        raise BadRow("no_prompt")
    answer = row.get("answer", "")
    if isinstance(answer, int | float):
        answer = str(answer)
    elif "answer" in row:
        answer = _text(answer)
    _checked((*prompt, {"role": "assistant", "content": answer}))
    return Problem(identity, prompt, answer)


_PARSERS = {
    "messages": _conversation,
    "sharegpt": _sharegpt,
    "alpaca": _alpaca,
    "preferences": _preference,
    "problems": _problem,
}


def _prompt(row: Mapping[str, Any]) -> tuple[Message, ...]:
    for key in ("prompt", "conversations", "messages", "instruction", "question"):
        value = row.get(key)
        if isinstance(value, str) and value.strip():
            extra = row.get("input") if key == "instruction" else None
            return ({"role": "user", "content": value + (f"\n\n{extra}" if extra else "")},)
        if isinstance(value, Sequence) and not isinstance(value, str) and value:
            return _messages(value)
    return ()


def _split(messages: tuple[Message, ...]) -> tuple[tuple[Message, ...], str]:
    if not messages or messages[-1]["role"] != "assistant":
        raise BadRow("no_answer_last")
    return messages[:-1], messages[-1]["content"]


def _answer(value: Any) -> str:
    if isinstance(value, str):
        if not value.strip():
            raise BadRow("empty_text", "chosen/rejected")
        return value
    if isinstance(value, Mapping):
        return _messages([value])[0]["content"]
    if isinstance(value, Sequence) and value:
        return _split(_messages(value))[1]
    raise BadRow("not_text", type(value).__name__)


def _messages(value: Any) -> tuple[Message, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise BadRow("no_messages")
    out = []
    for entry in value:
        if not isinstance(entry, Mapping):
            raise BadRow("not_an_object", type(entry).__name__)
        name = entry.get("role", entry.get("from"))
        role = ROLES.get(str(name))
        if role is None:
            raise BadRow("unknown_role", str(name))
        content = entry["content"] if "content" in entry else entry["value"]
        out.append({"role": role, "content": _text(_joined(content))})
    return tuple(out)


def _joined(content: Any) -> Any:
    """The text of a content that comes as a list of text parts; anything else as it is."""
    if not isinstance(content, list) or not content:
        return content
    parts: list[str] = []
    for part in content:
        text = part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None
        if not isinstance(text, str):
            return content
        parts.append(text)
    return "".join(parts)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise BadRow("not_text", type(value).__name__)
    if not value.strip():
        raise BadRow("empty_text", "")
    return value


def _checked(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    if messages[-1]["role"] != "assistant":
        raise BadRow("no_answer_last")
    turns = [m["role"] for m in messages if m["role"] != "system"]
    if turns[0] != "user" or any(a == b for a, b in zip(turns, turns[1:], strict=False)):
        raise BadRow("turns_out_of_order", " ".join(turns[:6]))
    return messages
