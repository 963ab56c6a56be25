"""Records in two places, records that are too long, the split, and how problems are shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirada.data.record import Problem, Record, grouped, held_out, shared, show, summarized, too_long


def records(*rows: tuple[str, ...], path: str = "a.tsv") -> list[Record]:
    return [Record(f"{path}:{number}", row) for number, row in enumerate(rows, 1)]


# shared


def test_shared_records_are_equal_in_all_fields() -> None:
    train = records(("one", "uno"), ("two", "dos"), ("one", "uno"), ("three", "tres"))
    valid = records(("three", "tres"), ("Two", "dos"), ("two", "Dos"), ("one", "uno"), ("one", "uno"), path="b.tsv")
    assert [(problem.where, problem.what) for problem in shared(train, valid)] == [
        ("b.tsv:1", "also in the training data: a.tsv:4. Take it out of one of them."),
        ("b.tsv:4", "also in the training data: a.tsv:1. Take it out of one of them."),
        ("b.tsv:5", "also in the training data: a.tsv:1. Take it out of one of them."),
    ]


def test_nothing_is_shared_with_nothing() -> None:
    assert shared([], records(("one",))) == shared(records(("one",)), []) == []


# too long


def test_too_long_records_name_each_long_field() -> None:
    problems = too_long(
        records(("a", "b"), ("c", "d"), ("e", "f"), ("g", "h")),
        [[5, 5], [6, 5], [0, 7], [8, 9]],
        most=5,
        columns=("source", "target"),
    )
    assert [(problem.where, problem.what.split(", at")[0]) for problem in problems] == [
        ("a.tsv:2", "too long: source has 6 tokens"),
        ("a.tsv:3", "too long: target has 7 tokens"),
        ("a.tsv:4", "too long: source has 8 tokens, target has 9 tokens"),
    ]
    assert problems[0].what.endswith("at most 5 fit. Split the record, or take a longer length.")


def test_lengths_must_belong_to_the_records() -> None:
    with pytest.raises(ValueError, match="must be lengths for each record: got 1 records, 2 lengths"):
        too_long(records(("a",)), [[1], [2]], most=3, columns=("text",))


# held out


@given(
    st.lists(st.integers(0, 30), min_size=2, max_size=200).filter(lambda texts: len(set(texts)) > 1),
    st.floats(0.01, 0.99),
    st.integers(1, 50),
)
def test_laws_of_holding_out(texts: list[int], share: float, most: int) -> None:
    whole = records(*((str(text), str(number)) for number, text in enumerate(texts)))
    train, valid = held_out(whole, share, most)
    assert (train, valid) == held_out(whole, share, most)
    assert min(len(train), len(valid)) >= 1
    assert sorted(train + valid, key=whole.index) == whole
    assert train == sorted(train, key=whole.index)
    assert valid == sorted(valid, key=whole.index)
    assert not {record.value[0] for record in train} & {record.value[0] for record in valid}
    smallest = min(texts.count(text) for text in texts)
    assert len(valid) <= max(min(share * len(whole), most), smallest)


def test_as_many_are_held_out_as_requested() -> None:
    whole = records(*((f"text {number}",) for number in range(1000)))
    assert len(held_out(whole)[1]) == 50
    assert len(held_out(whole, share=0.2)[1]) == 200
    assert len(held_out(whole, share=0.2, most=70)[1]) == 70
    assert len(held_out(whole[:3])[1]) == 1


def test_nothing_can_be_held_out_of_nothing() -> None:
    with pytest.raises(ValueError, match="there are no records: the data is empty"):
        held_out([])


def test_the_split_depends_on_texts_not_on_their_order_or_place() -> None:
    whole = records(*((f"text {number}", "x") for number in range(100)))
    turned = records(*((f"text {number}", "y") for number in reversed(range(100))), path="b.tsv")
    assert {record.value[0] for record in held_out(whole)[1]} == {record.value[0] for record in held_out(turned)[1]}


def test_the_split_is_the_same_on_every_machine() -> None:
    whole = records(*((f"text {number}",) for number in range(40)))
    # the two smallest of forty eight-byte BLAKE2b digests, from `b2sum -l 64`
    assert [record.value[0] for record in held_out(whole)[1]] == ["text 3", "text 33"]


def test_a_text_with_many_records_does_not_fill_the_validation_data() -> None:
    whole = records(*(("same", str(number)) for number in range(900)), *((f"text {i}", "x") for i in range(100)))
    valid = held_out(whole, share=0.05)[1]
    assert len(valid) == 50
    assert all(record.value[0] != "same" for record in valid)


@pytest.mark.parametrize("rows", [[("a", "b")], [("a", "b"), ("a", "c")]])
def test_holding_out_needs_two_texts(rows: list[tuple[str, ...]]) -> None:
    with pytest.raises(
        ValueError, match=r"needs at least 2 different records: got \d records?, \d of them different. Give more"
    ):
        held_out(records(*rows))


@pytest.mark.parametrize("share", [0.0, 1.0, -1.0, float("nan")])
def test_the_share_lies_between_nothing_and_all(share: float) -> None:
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        held_out(records(("a",), ("b",)), share)
    with pytest.raises(ValueError, match="at least one record must be held out: got most=0"):
        held_out(records(("a",), ("b",)), most=0)


# show


def test_few_problems_are_shown_one_by_one() -> None:
    problems = [Problem("a.tsv:1", "empty line."), Problem("a.tsv:2", "not UTF-8: byte 1 of the line is 0xff.")]
    assert show(problems, most=2) == "a.tsv:1: empty line.\na.tsv:2: not UTF-8: byte 1 of the line is 0xff."
    assert show([]) == ""


def test_many_problems_are_counted_by_kind() -> None:
    problems = [Problem(f"a.tsv:{line}", f"not UTF-8: byte {line} of the line is 0xff.") for line in range(1, 31)]
    problems += [
        Problem(f"a.tsv:{line}", "expected 2 columns, found 1. Each line is a<TAB>b.") for line in range(31, 38)
    ]
    lines = show(problems).splitlines()
    assert lines[:20] == [str(problem) for problem in problems[:20]]
    assert lines[20:] == ["... and 17 more", "30 x not UTF-8", "7 x expected 2 columns, found 1"]


# groups


def test_equal_problems_are_one_group_whatever_their_numbers_and_labels() -> None:
    problems = [
        Problem(f"a.tsv:{n}", f"not UTF-8: byte {n} of the line is 0xff. Pass encoding=, which reads '{n}'.")
        for n in (1, 2)
    ]
    problems += [Problem(f"a.tsv:{n}", f"label 'x{n}' does not occur in training; known: a, b") for n in (3, 4, 5)]
    problems += [Problem(f"a.tsv:{n}", f"{n} labels (a, b{n}): a text has one here. Keep one of them.") for n in (6, 7)]
    problems += [Problem("a.tsv:8", "no 'text' in the object."), Problem("a.tsv:9", "no 'label' in the object.")]
    lines = grouped(problems).splitlines()
    assert [line.split(":")[1] for line in lines if not line.startswith("  and")] == ["1", "3", "6", "8", "9"]
    assert [line for line in lines if line.startswith("  and")] == [
        f"  and {count} more of this kind (--all lists each)" for count in (1, 2, 1)
    ]


@pytest.mark.parametrize(
    "what",
    [
        "text {!r} in a column of numbers: A. Fix it, or carry the row before on with bad=skip.",
        "node {!r} has features already: features.csv:3. Take one of them out.",
        "unknown split {!r}; known: train, valid, test, or nothing.",
        "the only picture of {!r}. A class needs two at least: one to learn from, one to validate on.",
        "no 'caption' in the object. It has {!r}. columns=NAME,CAPTION says which keys to read.",
    ],
)
def test_the_words_of_the_file_make_no_groups(what: str) -> None:
    words = ("many", "it's", "approx. 5", "a: b")
    found = grouped([Problem(f"a.csv:{line}", what.format(word)) for line, word in enumerate(words)])
    assert found.splitlines()[1:] == ["  and 3 more of this kind (--all lists each)"]
    kinds = grouped(
        [Problem("a.jsonl:1", "no 'text' in the object."), Problem("a.jsonl:2", "no 'label' in the object.")]
    )
    assert len(kinds.splitlines()) == 2


def test_too_many_cells_and_too_few_are_two_groups() -> None:
    few = [Problem(f"a.csv:{n}", "expected 2 columns, found 1. Each line is a,b.") for n in range(500)]
    many = [
        Problem(f"a.csv:{n}", f"expected 2 columns, found {n}. Each line is a,b. Put it in quotes.")
        for n in range(3, 503)
    ]
    assert grouped(few + many) == "\n".join(
        [
            str(few[0]),
            "  and 499 more of this kind (--all lists each)",
            str(many[0]),
            "  and 499 more of this kind (--all lists each)",
        ]
    )


def test_an_error_names_few_problems_each_and_many_by_their_kinds() -> None:
    kinds = [Problem(f"a.tsv:{n}", f"fault {letter}. Fix it.") for n, letter in enumerate("abcdefg", 1)]
    assert summarized(kinds[:5], 5) == "\n".join(map(str, kinds[:5]))
    assert summarized(kinds[:5], 5).count("\n") == 4
    lines = summarized([*kinds, *kinds[:1] * 1000], 5).splitlines()
    assert lines[:2] == [str(kinds[0]), "  and 1,000 more of this kind (`mirada check --all` lists each)"]
    assert lines[2:] == [*map(str, kinds[1:5]), "... and 2 more of other kinds"]
