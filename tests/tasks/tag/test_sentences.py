"""Files of tagged texts: CoNLL in its forms, objects, and what is wrong with them."""

import json
from pathlib import Path

import pytest

from mirada.tasks.tag.sentences import TaggedText, TagOptions, read_tagged, read_untagged

CONLL2003 = """-DOCSTART- -X- -X- O

EU NNP B-NP B-ORG
rejects VBZ B-VP O
German JJ B-NP B-MISC

Peter NNP B-NP B-PER
Blackburn NNP I-NP I-PER
"""
UNIVERSAL = """# sent_id = 1
# text = Al tren
1-2\tAl\t_\t_\t_\t_\t_\t_\t_\t_
1\tA\ta\tADP\tp\t_\t3\tcase\t_\t_
2\tel\tel\tDET\td\t_\t3\tdet\t_\t_
3\ttren\ttren\tNOUN\tn\t_\t0\troot\t_\t_
3.1\tnada\t_\tX\t_\t_\t_\t_\t_\t_
"""


def written(folder: Path, text: str, name: str = "x.conll") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def words(value: TaggedText) -> list[str]:
    return [value.text[start:end] for start, end in value.words]


def test_the_columns_of_conll_2003(tmp_path: Path) -> None:
    path = written(tmp_path, CONLL2003)
    found = read_tagged(path, TagOptions())
    assert [record.value.tags for record in found.records] == [("B-ORG", "O", "B-MISC"), ("B-PER", "I-PER")]
    assert [record.where for record in found.records] == [f"{path}:3", f"{path}:7"]
    assert words(found.records[0].value) == ["EU", "rejects", "German"]
    assert found.notes == [f"{path}: words in column 1, tags in column 4"]
    assert read_tagged(path, TagOptions(column="2")).records[0].value.tags == ("NNP", "VBZ", "JJ")


@pytest.mark.parametrize(("column", "tags"), [("", "ADP DET NOUN"), ("xpos", "p d n"), ("8", "case det root")])
def test_universal_dependencies(tmp_path: Path, column: str, tags: str) -> None:
    found = read_tagged(written(tmp_path, UNIVERSAL, "x.conllu"), TagOptions(column=column))
    assert [(words(r.value), r.value.tags) for r in found.records] == [(["A", "el", "tren"], tuple(tags.split()))]
    assert not found.problems


def test_tabs_keep_blanks_inside_words_and_windows_lines(tmp_path: Path) -> None:
    found = read_tagged(written(tmp_path, "10 000\tB-N\r\n\u00e9t\u00e9\tO\r\n\r\n\r\n# \tO\r\n"), TagOptions())
    assert [words(record.value) for record in found.records] == [["10 000", "\u00e9t\u00e9"], ["#"]]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("a B-X\nb\n\nc O\n", 2, "expected 2 columns, found 1. Each line is a word"),
        ("a B-X\n\nb O more\n", 3, "expected 2 columns, found 3."),
        ("a\tO\n\tO\n", 2, "no word in the line."),
        ("a\tO\nb\t\n", 2, "no tag for 'b'."),
        ("a\nb\n", 1, "expected a word and its tag, found 1 column."),
    ],
)
def test_bad_lines_are_named(tmp_path: Path, text: str, line: int, what: str) -> None:
    path = written(tmp_path, text)
    problem = next(iter(_problems(path)))
    assert problem.startswith(f"{path}:{line}: {what}")


def _problems(path: str) -> list[str]:
    try:
        return [str(problem) for problem in read_tagged(path, TagOptions()).problems]
    except ValueError as error:
        return [str(error)]


def test_a_file_of_words_alone_can_be_asked(tmp_path: Path) -> None:
    path = written(tmp_path, "a\nb\n")
    assert [words(record.value) for record in read_untagged(path, TagOptions())] == [["a", "b"]]


@pytest.mark.parametrize(
    ("column", "what"), [("9", "there is no column 9: the line has 4"), ("upos", "column=upos is one of CoNLL-U")]
)
def test_columns_that_are_not_there(tmp_path: Path, column: str, what: str) -> None:
    path = written(tmp_path, CONLL2003)
    with pytest.raises(ValueError, match=f"{path}:3: {what}"):
        read_tagged(path, TagOptions(column=column))


@pytest.mark.parametrize(
    "value",
    [
        {"tokens": ["Ana", "left", "New", "Oslo"], "tags": ["B-PER", "O", "B-LOC", "I-LOC"]},
        {
            "text": "Ana left New  Oslo",
            "spans": [{"start": 0, "end": 3, "label": "PER"}, {"start": 8, "end": 18, "label": "LOC"}],
        },
        {"text": "Ana left New Oslo", "entities": [[9, 17, "LOC"], [0, 4, "PER"]]},
    ],
)
def test_objects_with_tags_or_spans(tmp_path: Path, value: dict) -> None:
    path = written(tmp_path, json.dumps(value) + "\n", "x.jsonl")
    (record,) = read_tagged(path, TagOptions()).records
    assert words(record.value) == ["Ana", "left", "New", "Oslo"]
    assert record.value.tags == ("B-PER", "O", "B-LOC", "I-LOC")
    assert read_tagged([value], TagOptions()).records[0].value == record.value


@pytest.mark.parametrize(
    ("value", "what"),
    [
        ({"tokens": ["a", "b"], "tags": ["O"]}, "2 words and 1 tag. Give each word one tag."),
        ({"tokens": ["a"], "tags": [3]}, "tags has '3', which is no text. Write the names of the tags."),
        ({"tokens": "a b", "tags": ["O"]}, "tokens is a text, not a list of texts."),
        ({"tokens": ["a"]}, "no 'tags' beside the tokens."),
        ({"text": "Ana", "spans": [{"start": 0, "end": 9, "label": "X"}]}, "the span 0 to 9 does not lie in the text"),
        ({"text": "Ana", "spans": [{"start": 0, "label": "X"}]}, "a span needs start, end and label"),
        ({"text": "a b", "spans": [[0, 3, "X"], [2, 3, "Y"]]}, "the spans of X and Y overlap"),
        ({"text": "a  b", "spans": [[1, 3, "X"]]}, "the span 1 to 3 has no word"),
        ({"txt": "a"}, "unknown key 'txt'"),
        ({"text": "a"}, "no list of 'spans' beside the text."),
    ],
)
def test_bad_objects_are_named(tmp_path: Path, value: dict, what: str) -> None:
    path = written(tmp_path, json.dumps({"text": "a", "spans": []}) + "\n" + json.dumps(value) + "\n", "x.jsonl")
    (problem,) = read_tagged(path, TagOptions()).problems
    assert str(problem).startswith(f"{path}:2: {what}")


def test_spans_within_words_are_widened_and_said() -> None:
    found = read_tagged([{"text": "prewar Oslo", "spans": [[3, 6, "X"]]}], TagOptions())
    assert found.records[0].value.tags == ("B-X", "O")
    assert found.notes == ["1 span began or ended within a word: widened to whole words"]
