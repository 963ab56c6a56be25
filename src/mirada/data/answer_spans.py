"""A question with its passage and the spans of its answers there, from what a file or a program says about them."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mirada.data.memory import plain
from mirada.data.records import Number, kind_of, text_of
from mirada.data.text import as_written, nfc

CharacterSpan = tuple[int, int]  # start and end, as in text[start:end]
TEXTS = ("question", "context")


@dataclass(frozen=True)
class PassageQuestion:
    """A question, the passage that it is about, and where its answers stand there; no span: the passage has none.

    >>> PassageQuestion("Who is home?", "Ana is home.", ((0, 3),)).answers
    ('Ana',)
    """

    question: str
    passage: str
    spans: tuple[CharacterSpan, ...] = ()

    def __str__(self) -> str:
        return self.question

    @property
    def answers(self) -> tuple[str, ...]:
        """The texts of the answers: several are references, and each of them is right."""
        return tuple(self.passage[start:end] for start, end in self.spans)

    @property
    def span(self) -> CharacterSpan | None:
        """The answer that most references agree on; among equals, the first."""
        return Counter(self.spans).most_common(1)[0][0] if self.spans else None


def understood(found: Mapping[str, Any], counts: Counter[str]) -> tuple[PassageQuestion | None, list[str]]:
    """The question of an entry, and what is wrong with it. `counts` is told what had to be found out."""
    texts, faults = texts_of(found)
    references, fault = references_of(found)
    if faults or fault:
        return None, [*faults, *filter(None, [fault])]
    passage, spans = texts[1], []
    given = [pair for pair in references if not is_missing(pair[0]) and pair[0] != ""]
    if references and not given:
        return None, ["no text for answer. Fill it in; where the passage has no answer, say so: null, or answers: []."]
    counts["empty"] += len(references) - len(given)
    for value, start in given:
        text, fault = text_of(plain(value), as_written)
        fault = f"answer is {fault}." if fault else "no text for answer." if not text.strip() else ""
        span, fault = (None, fault) if fault else located(passage, text, plain(start), counts)
        faults += [fault] if fault else []
        spans += [span] if span is not None else []
    return PassageQuestion(texts[0], passage, tuple(spans)), faults


def texts_of(found: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """The question and the passage of an entry, and what is wrong with them. A passage keeps its spaces: starts count them."""
    texts, faults = [], []
    for name in TEXTS:
        if name not in found:
            faults.append(f"no {name!r} in the object.")
            continue
        text, fault = text_of(plain(found[name]), as_written)
        if fault:
            faults.append(f"{name} is {fault}.")
        elif not text.strip():
            faults.append(f"no text for {name}. Fill it in, or take the record out.")
        texts.append(text.strip() if name == "question" else text)
    return texts, faults


def references_of(found: Mapping[str, Any]) -> tuple[list[tuple[Any, Any]], str]:
    """The answers of an entry with their starts, where they have one; and what is wrong with them.

    >>> references_of({"answers": {"text": ["Ana"], "answer_start": [7]}})
    ([('Ana', 7)], '')
    """
    if found.get("is_impossible") is True:
        return [], ""
    if "answers" in found:
        return reference_list(found["answers"])
    if "answer" not in found:
        return [], "no 'answer' in the object."
    answer = found["answer"]
    if isinstance(answer, list | tuple | dict):
        return reference_list([answer] if isinstance(answer, dict) else answer)
    return ([] if is_missing(answer) else [(answer, found.get("start"))]), ""


def reference_list(answers: Any) -> tuple[list[tuple[Any, Any]], str]:
    """References as SQuAD lists them, as columns of texts and starts, or as plain texts."""
    if isinstance(answers, Mapping):
        texts, starts = list(answers.get("text", ())), list(answers.get("answer_start", ()))
        return list(zip(texts, starts or [None] * len(texts), strict=False)), ""
    if not isinstance(answers, list | tuple):
        return [], f"answers is {kind_of(answers)}, not a list."
    pairs = []
    for item in answers:
        if isinstance(item, Mapping):
            if "text" not in item:
                return [], "an answer without 'text'. Each is an object with text and answer_start."
            pairs.append((item["text"], item.get("answer_start", item.get("start"))))
        else:
            pairs.append((item, None))
    return pairs, ""


def is_missing(value: Any) -> bool:
    """Whether a value says that there is none: None, or what data frames have in its place."""
    return value is None or (isinstance(value, float) and value != value)


def located(passage: str, text: str, start: Any, counts: Counter[str]) -> tuple[CharacterSpan | None, str]:
    """Where an answer stands in its passage, and what is wrong with it; spaces around it do not belong to it.

    >>> located("Ana saw Ana.", "Ana", 8, Counter())
    ((8, 11), '')
    >>> located("Ana saw Luis.", "Eva", None, Counter())
    (None, "the answer does not occur in its passage: 'Eva'.")
    """
    bare, before = text.strip(), len(text) - len(text.lstrip())
    if isinstance(start, Number) and re.fullmatch(r"-?\d{1,15}", start):
        start = int(start)
    if isinstance(start, float) and start.is_integer():  # a column of a data frame with gaps
        start = int(start)
    if not is_missing(start) and (not isinstance(start, int) or isinstance(start, bool)):
        return None, f"start is {kind_of(start) if not isinstance(start, Number) else start}, not a whole number."
    if isinstance(start, int) and start >= 0 and passage.startswith(bare, start + before):
        return (start + before, start + before + len(bare)), ""
    places = occurrences(passage, bare)
    if not places:
        composed = nfc(bare) in nfc(passage)
        hint = " It does once accents are composed: save both in one form (NFC)." if composed else ""
        return None, f"the answer does not occur in its passage: {shown(bare)}.{hint}"
    if isinstance(start, int) and len(places) > 1:
        there = passage[max(0, start) : max(0, start) + len(text)]
        return None, (
            f"the answer does not stand at its start: {shown(bare)} occurs {len(places)} times, at {start} stands "
            f"{shown(there)}. Count characters from 0, or leave the start out."
        )
    if isinstance(start, int) or len(places) > 1:
        counts["moved" if isinstance(start, int) else "first"] += 1
    return (places[0], places[0] + len(bare)), ""


def occurrences(passage: str, text: str) -> list[int]:
    """Where a text stands in a passage as words of its own; if nowhere, where it stands at all.

    >>> occurrences("an Ana and an", "an"), occurrences("Banana", "an")
    ([0, 11], [1, 3])
    """
    places = [match.start() for match in re.finditer(f"(?={re.escape(text)})", passage)]

    def whole(place: int) -> bool:
        around = passage[max(0, place - 1) : place + 1], passage[place + len(text) - 1 : place + len(text) + 1]
        return not any(len(pair) == 2 and pair.isalnum() for pair in around)

    return [place for place in places if whole(place)] or places


def shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")
