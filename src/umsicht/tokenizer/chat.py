"""The one chat renderer: messages to ids, with a mask of what the assistant said.

Training, sampling and export all come here, so a prompt is an exact prefix of the training text *in ids*, not only in characters: the parts
are encoded one by one and never merge across a boundary, and literal special tokens inside a message stay literal text.

The layout is ChatML: `<|im_start|>role\\n` content `<|im_end|>\\n`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from umsicht.findings.errors import UserError
from umsicht.tokenizer.core import Tokenizer
from umsicht.tokenizer.special import IM_END, IM_START
from umsicht.words import t

ROLES = ("system", "user", "assistant")

# The same layout for runtimes that render text and then look for special tokens in it.
JINJA_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
"""What `tokenizer_config.json` carries as `chat_template`."""


@dataclass(frozen=True)
class Rendered:
    """A conversation in ids. `assistant_mask[i]` is True where `ids[i]` is a token the model must learn to write: the assistant's
    words and the `<|im_end|>` after them."""

    ids: list[int]
    assistant_mask: list[bool]


def render(
    messages: Sequence[Mapping[str, str]], tokenizer: Tokenizer, *, add_generation_prompt: bool = False
) -> Rendered:
    """Render `[{"role": …, "content": …}, …]`.

    With `add_generation_prompt` the ids end where the assistant's answer begins. Raises UserError for an unknown role, a message without
    text, or a tokenizer without chat tokens.
    """
    start, end = chat_ids(tokenizer)
    newline = tokenizer.encode("\n")
    ids: list[int] = []
    mask: list[bool] = []
    for number, message in enumerate(messages):
        role, content = _checked(message, number)
        head = [start, *tokenizer.encode(f"{role}\n")]
        body = [*tokenizer.encode(content), end]
        ids += head + body + newline
        mask += [False] * len(head) + [role == "assistant"] * len(body) + [False] * len(newline)
    if add_generation_prompt:
        head = [start, *tokenizer.encode("assistant\n")]
        ids += head
        mask += [False] * len(head)
    return Rendered(ids, mask)


def prompt_ids(messages: Sequence[Mapping[str, str]], tokenizer: Tokenizer) -> list[int]:
    """Ids of a prompt that the assistant is to answer."""
    return render(messages, tokenizer, add_generation_prompt=True).ids


def stop_ids(tokenizer: Tokenizer) -> tuple[int, ...]:
    """Ids that end an answer."""
    return (chat_ids(tokenizer)[1], tokenizer.eos_id)


def chat_ids(tokenizer: Tokenizer) -> tuple[int, int]:
    """Ids that begin and end a message. Raises UserError where the tokenizer has none."""
    try:
        return tokenizer.special[IM_START], tokenizer.special[IM_END]
    except KeyError as error:
        raise UserError(
            t("tokenizer.no_chat_tokens", name=str(error.args[0])), fix=t("tokenizer.no_chat_tokens_fix")
        ) from error


def to_text(messages: Sequence[Mapping[str, str]], *, add_generation_prompt: bool = False) -> str:
    """The same layout as text, for people to read."""
    shown = "".join(f"{IM_START}{m['role']}\n{m['content']}{IM_END}\n" for m in messages)
    return shown + (f"{IM_START}assistant\n" if add_generation_prompt else "")


def _checked(message: Mapping[str, str], number: int) -> tuple[str, str]:
    role, content = message.get("role"), message.get("content")
    if role not in ROLES:
        raise UserError(
            t("tokenizer.chat_role", role=repr(role)), where=t("tokenizer.chat_message", number=number),
            fix=t("tokenizer.chat_role_fix", roles=", ".join(ROLES)),
        )  # fmt: skip
    if not isinstance(content, str):
        raise UserError(
            t("tokenizer.chat_content", kind=type(content).__name__), where=t("tokenizer.chat_message", number=number),
            fix=t("tokenizer.chat_content_fix"),
        )  # fmt: skip
    return role, content
