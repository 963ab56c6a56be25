"""Questions about passages: every form they come in, and everything that can be wrong with them, named with its place."""

import gzip
import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest

from mirada.data.options import TableOptions
from mirada.tasks.answer.questions import NO_PASSAGE, located, occurrences, read_questions, read_unanswered
from mirada.tasks.answer.reading import PassageQuestion

PASSAGE = "Ana took the key. Luis went to Rome. Ana slept."
SQUAD = {
    "version": "1.1",
    "data": [
        {
            "title": "A day",
            "paragraphs": [
                {
                    "context": PASSAGE,
                    "qas": [
                        {
                            "id": "q1",
                            "question": "Who slept?",
                            "answers": [
                                {"text": "Ana", "answer_start": 37},
                                {"text": "Ana slept", "answer_start": 37},
                                {"text": "Ana", "answer_start": 37},
                            ],
                        },
                        {"id": "q2", "question": "Where is Eva?", "answers": [], "is_impossible": True},
                    ],
                }
            ],
        }
    ],
}


def squad(**changes: Any) -> dict[str, Any]:
    """SQuAD with one question, some of it changed."""
    paragraph: dict[str, Any] = {"context": changes.pop("context", PASSAGE)}
    item = {"id": "q1", "question": "Who?", "answers": [{"text": "Ana", "answer_start": 0}]} | changes
    paragraph["qas"] = [{key: value for key, value in item.items() if value != "absent"}]
    return {"data": [{"paragraphs": [paragraph]}]}


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, Any], str]:
    """Write a file: an object as JSON, a list as lines of JSON, a text or bytes as they are."""

    def written(name: str, content: Any) -> str:
        path = tmp_path / name
        if isinstance(content, list):
            content = "".join(
                (line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)) + "\n" for line in content
            )
        if isinstance(content, dict):
            content = json.dumps(content, ensure_ascii=False)
        raw = content.encode() if isinstance(content, str) else content
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        return str(path)

    return written


# the forms


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_squad_has_references_and_questions_without_an_answer(write, name: str) -> None:
    path = write(name, SQUAD)
    found = read_questions(path)
    assert found.problems == []
    assert found.notes == []
    first, second = found.records
    assert first.where == f"{path}, question q1"
    assert first.value.answers == ("Ana", "Ana slept", "Ana")
    assert first.value.spans == ((37, 40), (37, 46), (37, 40))
    assert first.value.span == (37, 40), "the one that most agree on"
    assert second.value == PassageQuestion("Where is Eva?", PASSAGE)
    assert second.value.span is None


LINE = {"question": "Where is Luis?", "context": PASSAGE, "answer": "Rome"}


@pytest.mark.parametrize(
    ("line", "spans"),
    [
        (LINE, ((31, 35),)),
        (LINE | {"start": 31}, ((31, 35),)),
        (LINE | {"answer": None}, ()),
        (LINE | {"answer": ["Rome", "to Rome"]}, ((31, 35), (28, 35))),
        (LINE | {"answer": {"text": "Rome", "start": 31}}, ((31, 35),)),
        (LINE | {"answers": {"text": ["Rome"], "answer_start": [31]}}, ((31, 35),)),
        (LINE | {"answers": {"text": [], "answer_start": []}}, ()),
        (LINE | {"answers": [{"text": "Rome", "answer_start": 31}]}, ((31, 35),)),
        (LINE | {"is_impossible": True, "answer": ""}, ()),
        (LINE | {"answer": " Rome "}, ((31, 35),)),
        (LINE | {"answer": " Rome", "start": 30}, ((31, 35),)),
    ],
)
def test_json_lines_say_answers_in_several_ways(write, line: dict, spans: tuple) -> None:
    for found in (read_questions(write("a.jsonl", [line])), read_questions([line])):
        assert found.problems == []
        assert [record.value for record in found.records] == [PassageQuestion("Where is Luis?", PASSAGE, spans)]


def test_a_list_of_objects_in_one_file(write) -> None:
    path = write("a.json", json.dumps([LINE, "no object"]))
    found = read_questions(path)
    assert found.records[0].where == f"{path}, item 1"
    assert str(found.problems[0]) == (
        f"{path}, item 2: expected an object, found a text. Each item is "
        '{"question": ..., "context": ..., "answer": ..., "start": ...}.'
    )


def test_rows_columns_and_data_frames_in_memory() -> None:
    wanted = [PassageQuestion("Who slept?", PASSAGE, ((37, 40),)), PassageQuestion("Who sang?", PASSAGE)]
    rows = [("Who slept?", PASSAGE, "Ana", 37), ("Who sang?", PASSAGE, None)]
    columns = {
        "question": [row[0] for row in rows],
        "context": [PASSAGE] * 2,
        "answer": ["Ana", None],
        "start": [37, None],
    }

    class Frame:  # as pandas shows itself: gaps are not a number, and make a column of whole numbers one of floats
        columns = ("question", "context", "answer", "start")

        def __getitem__(self, name: str) -> list[Any]:
            gaps = {"answer": ["Ana", float("nan")], "start": [37.0, float("nan")]}
            return gaps.get(name, columns[name])

    for data in (rows, columns, Frame()):
        found = read_questions(data)
        assert [record.value for record in found.records] == wanted
        assert [record.where for record in found.records] == ["row 1", "row 2"]
    assert len(read_questions(SQUAD).records) == 2
    assert read_questions(SQUAD).records[0].where == "question q1"


def test_columns_name_the_keys(write) -> None:
    path = write("a.jsonl", [{"q": "Who slept?", "text": PASSAGE, "a": "Ana", "at": 37}])
    (record,) = read_questions(path, TableOptions(columns="q,text,a,at")).records
    assert record.value.spans == ((37, 40),)
    with pytest.raises(
        ValueError, match=r"columns= must name question, context, answer and perhaps start: got 1 \(q\)"
    ):
        read_questions(path, TableOptions(columns="q"))


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
@pytest.mark.parametrize(
    ("keys", "note"),
    [
        (("pregunta", "contexto", "respuesta"), "keys: question is pregunta, context is contexto, answer is respuesta"),
        (("question", "passage", "answer"), "keys: context is passage"),
        (("Question", "Paragraph", "Answers"), "keys: question is Question, context is Paragraph, answer is Answers"),
    ],
)
def test_usual_names_are_recognized_and_reported(write, name: str, keys: tuple, note: str) -> None:
    lines = [dict(zip(keys, ("Where is Luis?", PASSAGE, "Rome"), strict=True)) | {"id": 7}]
    path = write(name, lines if name == "a.jsonl" else json.dumps(lines))
    for place, before in ((path, f"{path}: "), (lines, "")):
        found = read_questions(place)
        assert [record.value for record in found.records] == [PassageQuestion("Where is Luis?", PASSAGE, ((31, 35),))]
        assert found.notes == [before + note]
    found = read_unanswered(path)
    assert found.columns == (*keys, "id"), "the columns of the file stay"
    assert found.rows[0].input == PassageQuestion("Where is Luis?", PASSAGE)


def test_columns_in_memory_have_usual_names(write) -> None:
    columns = {"pregunta": ["Where is Luis?"], "pasaje": [PASSAGE], "respuesta": ["Rome"], "inicio": [31]}
    assert read_questions(columns).records[0].value.spans == ((31, 35),)


def test_keys_that_nothing_tells_are_requested(write) -> None:
    path = write("a.jsonl", [{"q": "Who slept?", "where": PASSAGE, "a": "Ana"}] * 2)
    message = (
        r"a.jsonl: unknown key 'question'; known: a, q, where. columns=QUESTION,CONTEXT,ANSWER says which to read."
    )
    with pytest.raises(ValueError, match=message):
        read_questions(path)
    assert len(read_questions(path, TableOptions(columns="q,where,a")).records) == 2


# characters


@pytest.mark.parametrize(
    ("passage", "answer"),
    [
        ("El café está aquí.", "aquí"),
        ("Fotos 👩‍👩‍👧: Ana y Luis 👍🏽.", "Luis"),
        ("uno\r\ndos\n\n  tres\t¡fin!", "tres"),
        (normalize("NFD", "La canción más bella: «Añoranza»."), normalize("NFD", "Añoranza")),
        ("가나다 " + normalize("NFD", "한국") + " 서울", "서울"),
    ],
)
def test_starts_count_the_characters_of_the_file(write, passage: str, answer: str) -> None:
    """Composed characters would be fewer: texts stay as they are written."""
    start = passage.index(answer)
    line = {"question": "¿Qué?", "context": passage, "answer": answer, "start": start}
    for path in (
        write("a.jsonl", [line]),
        write("a.json", squad(context=passage, answers=[{"text": answer, "answer_start": start}])),
    ):
        (record,) = read_questions(path).records
        assert record.value.passage == passage
        assert record.value.spans == ((start, start + len(answer)),)
        assert read_questions(path).notes == []


def test_other_encodings(write) -> None:
    line = json.dumps(LINE | {"context": "Niño en Rome", "answer": "Niño"}, ensure_ascii=False)
    path = write("a.jsonl", line.encode("latin-1"))
    assert read_questions(path).problems[0].what.startswith("not UTF-8: byte")
    (record,) = read_questions(path, TableOptions(encoding="latin-1")).records
    assert record.value.answers == ("Niño",)


# where an answer stands


def test_what_had_to_be_found_out_is_noted(write) -> None:
    lines = [
        LINE | {"start": 5},  # it is elsewhere, once
        LINE | {"answer": "Ana"},  # twice, and no start
        {"question": "Who?", "context": PASSAGE, "answers": [{"text": "", "answer_start": -1}, {"text": "key"}]},
    ]
    path = write("a.jsonl", lines)
    found = read_questions(path)
    assert [record.value.spans for record in found.records] == [((31, 35),), ((0, 3),), ((13, 16),)]
    assert found.notes == [
        f"{path}: 1 answer is empty and not used: the question has others",
        f"{path}: 1 answer is not at its start: the only occurrence in the passage is used",
        f"{path}: 1 answer is ambiguous: several occurrences in the passage and no start; the first is used",
    ]


@pytest.mark.parametrize(
    ("passage", "text", "places"),
    [("Banana", "an", [1, 3]), ("an Ana, an", "an", [0, 8]), ("aaa", "aa", [0, 1]), ("x", "y", []), ("ab", "ab", [0])],
)
def test_words_of_their_own_are_preferred(passage: str, text: str, places: list[int]) -> None:
    assert occurrences(passage, text) == places


def test_an_accent_written_in_two_ways_is_named() -> None:
    message = "in its passage: 'José'. It does once accents are composed: save both in one form (NFC)."
    with pytest.raises(ValueError, match=re.escape(message)):
        located("Jose\u0301 came.", "José", None, Counter())


# what is wrong

BAD_LINES = [
    ("{", "not JSON: Expecting property name enclosed in double quotes at character 2. Each line is an object."),
    ("[1]", "expected an object, found a list. Each line is an object."),
    ("", "empty line. Take it out."),
    ({"context": PASSAGE, "answer": "Ana"}, "no 'question' in the object."),
    ({"question": "Who?", "answer": "Ana"}, "no 'context' in the object."),
    ({"question": "Who?", "context": PASSAGE}, "no 'answer' in the object."),
    (LINE | {"question": " "}, "no text for question. Fill it in, or take the record out."),
    (LINE | {"context": "\n"}, "no text for context. Fill it in, or take the record out."),
    (
        LINE | {"answer": ""},
        "no text for answer. Fill it in; where the passage has no answer, say so: null, or answers: [].",
    ),
    (LINE | {"answer": "   "}, "no text for answer."),
    (LINE | {"question": ["Who?"]}, "question is a list, not text."),
    (LINE | {"context": None}, "context is null, not text."),
    (LINE | {"answers": "Rome"}, "answers is a text, not a list."),
    (LINE | {"answers": [{"start": 1}]}, "an answer without 'text'. Each is an object with text and answer_start."),
    (LINE | {"answer": [["Rome"]]}, "answer is a list, not text."),
    (LINE | {"answer": "Paris"}, "the answer does not occur in its passage: 'Paris'."),
    (LINE | {"answer": "rome"}, "the answer does not occur in its passage: 'rome'."),
    (LINE | {"start": "31"}, "start is a text, not a whole number."),
    (LINE | {"start": 31.5}, "start is 31.5, not a whole number."),
    (LINE | {"start": True}, "start is of type bool, not a whole number."),
    (
        LINE | {"answer": "Ana", "start": 3},
        "the answer is not at its start: 'Ana' occurs 2 times, and at 3 the passage has ' to'. Count characters from 0, "
        "or omit the start.",
    ),
    (LINE | {"context": "a\x00b"}, "context is not text: it has a NUL character."),
]


@pytest.mark.parametrize(("line", "what"), BAD_LINES, ids=[what[:40] for _, what in BAD_LINES])
def test_a_bad_line_is_named_and_the_others_are_read(write, line: Any, what: str) -> None:
    path = write("a.jsonl", [LINE, line, LINE])
    found = read_questions(path)
    assert [str(problem) for problem in found.problems] == [f"{path}:2: {what}"]
    assert [record.where for record in found.records] == [f"{path}:1", f"{path}:3"]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"answers": "absent"}, "no 'answer' in the object."),
        ({"answers": [{"text": "Paris", "answer_start": 0}]}, "the answer does not occur in its passage: 'Paris'."),
        ({"answers": [{"text": "", "answer_start": 0}]}, "no text for answer. Fill it in; where the passage has no answer, "
         "say so: null, or answers: []."),
        ({"question": ""}, "no text for question. Fill it in, or take the record out."),
        ({"context": None}, "context is null, not text."),
    ],
)  # fmt: skip
def test_bad_questions_of_squad_are_named_by_their_id(write, changes: dict, what: str) -> None:
    path = write("a.json", squad(**changes))
    found = read_questions(path)
    assert [str(problem) for problem in found.problems] == [f"{path}, question q1: {what}"]
    assert found.records == []


def test_questions_with_one_id_are_distinguished(write) -> None:
    twice = squad()
    twice["data"][0]["paragraphs"][0]["qas"] *= 2
    path = write("a.json", twice)
    assert [record.where for record in read_questions(path).records] == [
        f"{path}, question q1", f"{path}, question q1 (2)"
    ]  # fmt: skip


def test_parts_of_squad_that_are_not_there(write) -> None:
    path = write(
        "a.json", {"data": [{"title": "empty"}, {"paragraphs": [{"context": "a"}, {"context": "b", "qas": [7]}]}]}
    )
    found = [str(problem) for problem in read_questions(path).problems]
    assert found[0].startswith(f'{path}, data[0]: no list of paragraphs. Expected {{"data": [{{"paragraphs": ')
    assert found[1].startswith(f"{path}, data[1]: no list of paragraphs[0].qas. Expected ")
    assert found[2] == f"{path}, question 1: expected an object, found a number."


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"a.json:1: not JSON: Expecting property name .* at character 2. Expected \{\"data\""),
        ('{"question": "a"}\n{"question": "b"}\n', r"a.json:2: not JSON: Extra data at character 1. One object a line is JSON "
         r"lines: name the file .jsonl"),
        ('{"articles": []}', r"a.json: not in SQuAD's form: expected \{\"data\".*, found articles"),
        ("7", r"a.json: not in SQuAD's form: expected .*, found a number"),
        ("{}", r"a.json: not in SQuAD's form: expected .*, found an empty object"),
        (b'{"data": "\xe9"}', r"a.json:1: not UTF-8"),
        ('{"data": [NaN]}', r"a.json: not JSON: NaN is not a value"),
        (b"", r"a.json: the file is empty"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_squad(write, content: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_questions(write("a.json", content))


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a"])
def test_a_form_that_is_not_read(write, name: str) -> None:
    with pytest.raises(
        ValueError, match=r"unknown format .*; known: .json, .json-lines, .jsonl, .ndjson.*SQuAD JSON, or as JSON lines"
    ):
        read_questions(write(name, "x"))


@pytest.mark.parametrize(
    ("rows", "what"),
    [
        ([("Who?",)], "expected question, context, answer and perhaps start: found 1 value."),
        ([("Who?", "a", "a", 0, 1)], "expected question, context, answer and perhaps start: found 5 values."),
        ([("Who?", "Ana")], "no 'answer' in the object."),
        ([("Who?", "Ana", "Ana", "0")], "start is a text, not a whole number."),
        ([("Who?", 7, "7")], ""),
    ],
)
def test_bad_rows_in_memory_are_named(rows: list, what: str) -> None:
    assert [str(problem) for problem in read_questions(rows).problems] == ([f"row 1: {what}"] if what else [])


def test_what_is_no_data_at_all() -> None:
    with pytest.raises(ValueError, match=r"data in memory must be rows of \(question, context, answer, start\)"):
        read_questions(7)
    with pytest.raises(ValueError, match="unknown column 'context'"):
        read_questions({"question": ["a"], "answer": ["b"]})


# without answers


def test_questions_without_answers(write) -> None:
    found = read_unanswered(write("a.json", SQUAD))
    rows = found.rows
    assert found.columns == ("context", "id", "question", "is_impossible")
    assert [row.input for row in rows] == [
        PassageQuestion("Who slept?", PASSAGE),
        PassageQuestion("Where is Eva?", PASSAGE),
    ]
    assert rows[0].cells == (PASSAGE, "q1", "Who slept?", "")
    path = write("a.jsonl", [{"id": "7", "question": "Who?", "context": "Ana."}, {"question": "Who?"}, "{"])
    found = read_unanswered(path)
    rows = found.rows
    assert found.columns == ("id", "question", "context")
    assert [(row.where, row.error) for row in rows] == [
        (f"{path}:1", ""), (f"{path}:2", NO_PASSAGE),
        (f"{path}:3", "not JSON: Expecting property name enclosed in double quotes at character 2. Each line is an object."),
    ]  # fmt: skip
    rows = read_unanswered(path, passage="Luis.").rows
    assert [row.input and row.input.passage for row in rows] == ["Ana.", "Luis.", ""]


def test_questions_of_tables_and_lines(write) -> None:
    found = read_unanswered(write("a.csv", "id,question,context\n1,Who?,Ana.\n2,Where?,\n"), passage="Here.")
    rows = found.rows
    assert found.columns == ("id", "question", "context")
    assert [row.input and row.input.passage for row in rows] == ["Ana.", ""]
    assert rows[1].error == NO_PASSAGE
    rows = read_unanswered(write("a.txt", "Who?\n\nWhere?\n"), passage="Here.").rows
    assert [row.input for row in rows] == [
        PassageQuestion("Who?", "Here."), "", PassageQuestion("Where?", "Here.")
    ]  # fmt: skip
    assert rows[1].error == "no text for question. Fill it in, or take the record out."
    rows = read_unanswered(write("a.txt", "Who?\n")).rows
    assert rows[0].error == NO_PASSAGE
