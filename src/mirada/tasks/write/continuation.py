"""How a text is continued: what the model reads first, the tokens that end it, and its text as it grows."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mirada.data.text.pretrained import PretrainedTokenizer
from mirada.data.text.tokenize import Tokenizer
from mirada.decoding.search import Forbid, Repeated, Rule
from mirada.errors import require
from mirada.runs.ask import WriteAsk
from mirada.runs.run import Run

NEIGHBORS = 64  # tokens before a new one that may decide how it is spelled
BROKEN = "\ufffd"  # what bytes that are no whole character are decoded to
LIKELIEST = (
    50  # tokens that are drawn from, where a folder of Hugging Face wants draws and does not say: its library's default
)


def facts_of(run: Run) -> Mapping[str, Any]:
    """What a checkpoint says about tokens and draws; nothing for a run that was trained from nothing."""
    return run.settings.origin.get("facts", {})  # type: ignore[no-any-return]


def is_foreign(tokenizer: Tokenizer) -> bool:
    """Whether a tokenizer came with a checkpoint."""
    return type(tokenizer) is not Tokenizer


def usual_ask(run: Run) -> WriteAsk:
    """How a run continues texts where nobody says how: as its checkpoint's generation_config.json says, which draws only where
    it says so; a run that was trained here draws at the usual temperature.
    """
    if not run.settings.origin:
        return WriteAsk()
    how = facts_of(run).get("generation", {})
    tokens, penalty = how.get("max_new_tokens", 0), float(how.get("repetition_penalty", 1.0))
    temperature = float(how.get("temperature", 1.0)) if how.get("do_sample", False) else 0.0
    if not temperature:
        return WriteAsk(temperature=0.0, tokens=tokens, repetition_penalty=penalty)
    top_k, top_p = how.get("top_k", LIKELIEST), float(how.get("top_p", 1.0))
    return WriteAsk(temperature=temperature, top_k=top_k, top_p=top_p, tokens=tokens, repetition_penalty=penalty)


def ends_of(run: Run) -> tuple[int, ...]:
    """The tokens that end a text: those that the checkpoint names, else that of its tokenizer. Texts of a run that was
    trained from nothing have no end.
    """
    known = run.known.tokenizer
    named = facts_of(run).get("end_tokens")
    if named is None:
        named = [known.end] if is_foreign(known) and known.end >= 0 else []
    return tuple(token for token in named if 0 <= token < run.model.config.vocab)


def rules_of(run: Run, before: Sequence[int], ask: WriteAsk) -> list[Rule]:
    """What must not be written after these tokens, or is made less likely: no tokens that are not text, where texts have no
    end; no tokens that the tokenizer does not have.
    """
    known, vocab = run.known.tokenizer, run.model.config.vocab
    never = range(len(known), vocab) if is_foreign(known) else sorted(known.special)
    rules: list[Rule] = [Forbid(tuple(never))] if never else []
    if ask.repetition_penalty != 1:
        rules.append(Repeated(ask.repetition_penalty, tuple(sorted(set(before)))))
    return rules


def document_of(known: Tokenizer, ids: list[int]) -> list[int]:
    """The tokens of a text among others, for learning and measuring: after a start, or after the end of the text before it,
    where the tokenizer has no start; a tokenizer that has both ends the text, too.
    """
    tokens = known.prompt(ids)
    if not is_foreign(known) or known.end < 0:
        return tokens
    begins = len(tokens) > len(ids)
    return [*tokens, known.end] if begins and tokens[0] != known.end else tokens if begins else [known.end, *tokens]


def prompts_of(run: Run, texts: Sequence[str], ask: WriteAsk) -> list[list[int]]:
    """The tokens that the model reads first, for every text: its own, or those of a chat in which it is the question."""
    known = run.known.tokenizer
    if ask.chat:
        return _chat_prompts(known, texts, ask.system)
    prompts = [known.prompt(ids) for ids in known.encode_all(list(texts))]
    require(
        all(prompts), "there is nothing to continue: this model has no token that begins a text. Give it some text."
    )
    return prompts


def _chat_prompts(known: Tokenizer, questions: Sequence[str], system: str) -> list[list[int]]:
    """The tokens of chats up to the answer, as the template of the tokenizer renders them."""
    special = known.known if isinstance(known, PretrainedTokenizer) else None
    if special is None or not special.chat:
        raise ValueError("this run has no chat template: leave out chat, and it continues the text")
    from mirada.data.text.chat import render  # it needs a further library

    before = [{"role": "system", "content": system}] if system else []
    chats = [[*before, {"role": "user", "content": question}] for question in questions]
    assert isinstance(known, PretrainedTokenizer)
    return [known.encode_marked(text) for text in render(special.chat, chats, special.names)]


class GrowingText:
    """The text of tokens as more of them come: a character of several tokens is shown when it is whole.

    Args:
        decode: from tokens to their text.
        before: the tokens that are continued.

    >>> growing = GrowingText(lambda ids: bytes(ids).decode(errors="replace"), [104])
    >>> [growing.add(byte) for byte in "é!".encode()]
    ['', 'é', '!']
    """

    def __init__(self, decode: Callable[[Sequence[int]], str], before: Sequence[int]) -> None:
        self._decode = decode
        self._tokens = list(before)[-NEIGHBORS:]
        self._shown = len(decode(self._tokens))

    def add(self, token: int) -> str:
        """The text that can be shown after one more token."""
        self._tokens.append(token)
        text = self._decode(self._tokens)
        if text.endswith(BROKEN):
            return ""
        new, self._shown = text[self._shown :], len(text)
        if len(self._tokens) >= 4 * NEIGHBORS:
            self._tokens = self._tokens[-NEIGHBORS:]
            self._shown = len(self._decode(self._tokens))
        return new


def continued(run: Run, before: Sequence[int], tokens: Sequence[int]) -> str:
    """The text that more tokens append, including the space before the first of them, if there is one; without the beginning
    of a character that was not finished.
    """
    known = run.known.tokenizer
    first = list(before)[-NEIGHBORS:] if is_foreign(known) else list(before)
    text: str = known.decode([*first, *tokens])[len(known.decode(first)) :]
    return text.rstrip(BROKEN) if is_foreign(known) else text
