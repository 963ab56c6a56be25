"""answer: from questions and passages to spans with exact places."""

import math
from pathlib import Path
from typing import Any
from unicodedata import normalize

import pytest
import torch
from torch.testing import assert_close

import mirada
from mirada.runs.load import load
from mirada.runs.run import Run
from mirada.runs.sources import Source
from mirada.tasks.answer.reading import MARKS, PassageQuestion, Readings, readings
from mirada.tasks.answer.task import AnswerQuestions, QuestionOptions
from mirada.training.loop import Training
from tests.runs.small import QUICK, questions, trained, write_questions

PASSAGE = "Today Luis took the key. It rained. Then Ana took the hat."
KEYS = (
    "width=32", "hidden=64", "depth=2", "heads=2", "steps=150", "validate=50", "batch_tokens=1024", "warmup=10", "lr=1e-2",
    "dropout=0", "length=64", "vocab=60",
)  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_questions(tmp_path_factory.mktemp("data") / "questions.jsonl", questions())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, data: str) -> Run:
    return trained("answer", data, tmp_path_factory.mktemp("run") / "took", *KEYS)


# answers


def test_it_learns_who_took_what(run: Run) -> None:
    found = run.measure()
    assert set(found) == {"exact", "f1", "exact_window", "f1_window"}
    assert found["exact"] == found["f1"] == 100.0
    assert found["exact_window"] < 100.0
    answer = run("Who has the key?", passage=PASSAGE)
    assert (answer.text, answer.more) == ("Luis", {"start": 6, "end": 10})
    assert PASSAGE[6:10] == "Luis"
    assert 0.5 < answer.score <= 1.0
    assert run("Who has the hat?", passage=PASSAGE).text == "Ana"


def test_an_input_can_be_given_in_several_ways(run: Run) -> None:
    wanted = run("Who has the key?", passage=PASSAGE)
    for given in (
        ("Who has the key?", PASSAGE), f"Who has the key?\t{PASSAGE}", PassageQuestion("Who has the key?", PASSAGE)
    ):  # fmt: skip
        answer = run(given, passage="Another passage that does not count.")
        assert (answer.input, answer.text, answer.score) == (wanted.input, wanted.text, wanted.score)
    several = run(["Who has the key?", ("Who has the hat?", PASSAGE)], passage=PASSAGE)
    assert [answer.text for answer in several] == ["Luis", "Ana"]


def test_no_answer_is_reported(run: Run) -> None:
    answer = run("Who has the ring?", passage=PASSAGE)
    assert answer.text == ""
    assert answer.more == {"start": None, "end": None}
    assert answer.score > 0.5
    assert answer.note == f"the passage has no answer to 'Who has the ring?' (probability {answer.score:.2f})"
    assert answer.to_dict() == {
        "input": "Who has the ring?", "text": "", "score": answer.score, "start": None, "end": None
    }  # fmt: skip
    assert run("Who has the key?", passage=PASSAGE).note == ""


def test_a_run_that_knows_no_question_without_answer_always_answers(tmp_path: Path) -> None:
    rows = [row for row in questions() if row[2]]
    run = trained("answer", rows, tmp_path / "run", *QUICK, "length=64")
    assert not run.known.unanswerable
    assert run("Who has the ring?", passage=PASSAGE).text != ""


def test_ranked_spans_stand_at_different_places(run: Run) -> None:
    answer = run("Who has the key?", passage=PASSAGE, best=4)
    texts, scores = zip(*answer.ranked, strict=True)
    assert answer.shown == len(answer.ranked) == 4
    assert (texts[0], scores[0]) == (answer.text, answer.score)
    assert "" in texts, "that there is none is one of the possibilities"
    assert list(scores) == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    assert len(set(texts)) == 4
    assert run("Who has the key?", passage=PASSAGE).ranked == ()


def test_many_questions_are_answered_as_each_alone(run: Run) -> None:
    asked = [(question, passage) for question, passage, _, _ in questions()[:20]]
    together, alone = run(asked), [run(each) for each in asked]
    assert [answer.text for answer in together] == [answer.text for answer in alone]
    assert_close([a.score for a in together], [a.score for a in alone], rtol=1e-4, atol=1e-6)


# characters


@pytest.mark.parametrize(
    "passage",
    [
        "Today Óscar took the key. It rained.",
        "🎉 Today 👩‍👩‍👧 Óscar 👍🏽 took the key. It rained.",
        "\n\n  Today\tÓscar\r\ntook the key.\r\n",
        normalize("NFD", "Así pasó: today Óscar took the key."),
        "\ufeffToday Óscar took the key.",
    ],
    ids=["accents", "emoji", "line ends", "combining", "byte order mark"],
)
def test_places_count_the_characters_of_the_passage_as_it_is(run: Run, passage: str) -> None:
    """Whatever is found is a slice of what was given; the score of a name does not depend on how its accent is written."""
    answers = run("Who has the key?", passage=passage, best=50)
    start, end = answers.more["start"], answers.more["end"]
    texts = [text for text, _ in answers.ranked]
    name = normalize("NFD", "Óscar") if "Óscar" not in passage else "Óscar"
    assert name in texts, "with its accent, and nothing beside it"
    if answers.text:
        assert passage[start:end] == answers.text
    assert all(text in passage and text == text.strip() for text in texts)


# long passages


def long_passage(words: int = 300) -> str:
    return "It rained and rained. " * (words // 4) + PASSAGE


def test_an_answer_at_the_end_of_a_long_passage_is_found(run: Run) -> None:
    passage = long_passage()
    item = readings([PassageQuestion("Who has the key?", passage)], run.known.tokenizer)[0]
    assert len(item.first_tokens(64)) > 10
    answer = run("Who has the key?", passage=passage)
    start, end = answer.more["start"], answer.more["end"]
    assert (answer.text, passage[start:end]) == ("Luis", "Luis")
    assert start == len(passage) - len(PASSAGE) + PASSAGE.index("Luis")
    assert passage[slice(*answer.value.read[0])] != ""


def test_windows_are_read_apart_and_the_best_span_wins(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """With scores by hand: all places are alike, but for one in the last window."""
    passage = long_passage(40)
    item = readings([PassageQuestion("Who has the key?", passage)], run.known.tokenizer)[0]
    last = item.windows(item.first_tokens(64)[-1:], 64)[0]
    assert last.first > 0

    def scores(tokens: Any, segments: Any, lengths: Any, marks: Any) -> tuple[torch.Tensor, torch.Tensor]:
        start = torch.where(segments == 1, 0.0, -torch.inf)
        for row, length in enumerate(lengths.tolist()):
            start[row, length:] = -torch.inf
            if length == len(last.tokens):
                start[row, length - 3] = 4.0
        return start, start.clone()

    with monkeypatch.context() as patched:
        patched.setattr(run.model, "forward", scores)
        answer = run("Who has the key?", passage=passage, aligned=False)
    places = len(last.tokens) - last.offset  # with score 0: the others of the passage, and the one for "none"
    assert run.known.longest == 1
    assert_close(answer.score, math.exp(8) / (math.exp(8) + places), rtol=1e-4, atol=0)
    assert answer.more["start"] == item.passage.places[last.token(len(last.tokens) - 3)][0]


def test_training_reads_long_passages_where_the_answer_is_and_where_it_is_not(run: Run) -> None:
    passage = long_passage(100) + " It rained and rained." * 20
    start = passage.index("Luis")
    value = PassageQuestion("Who has the key?", passage, ((start, start + 4),))
    tokenizer = run.known.tokenizer
    examples = Readings(readings([value], tokenizer), run.model.config, tokenizer)
    item, found = examples.items[0], []
    for epoch in range(12):
        window, first, last = examples.window(0, epoch)
        assert first <= last
        if first == window.none:
            assert last == window.none
            covered = range(window.first, window.token(len(window.tokens)))
            assert item.wanted is not None
            assert item.wanted[0] not in covered
        else:
            assert run.known.tokenizer.token(window.tokens[first]) == "luis"
        found.append((window.first, first != window.none))
    assert [holds for _, holds in found] == [True, True, False] * 4, "a third of the time where it is not"
    assert len({first for first, holds in found if holds}) == 2, "every window that has it comes in turn"
    assert len({first for first, holds in found if not holds}) > 2
    part = examples.part([0, 0], 0)
    assert set(part.inputs) == {"tokens", "segments", "lengths", "marks", "starts", "ends"}
    assert part.counts == (2,)
    assert examples.lengths == [(64,)]


# evidence


def test_weights_have_a_row_for_the_question_and_a_column_for_the_passage(run: Run) -> None:
    answer = run("Who has the key?", passage=PASSAGE, aligned=True)
    assert answer.written == ("Who", "has", "the", "key", "?")
    assert answer.read == ("Today", "Luis", "took", "the", "key", ".", "It", "rained", ".", "Then", "Ana", "took", "the",
                           "hat", ".")  # fmt: skip
    assert answer.weights is not None
    assert answer.weights.shape == (5, 15)
    seen = answer.look()
    whole = seen[seen.names[0]].weights()[0].mean(0)  # of two layers; <s> question </s> <s> passage
    assert whole.shape == (23, 23)
    assert_close(answer.weights, whole[1:6, 8:])
    assert run(["Who has the key?"], passage=PASSAGE)[0].weights is None


def test_looking_replays_the_window_that_was_answered_from(run: Run) -> None:
    answer = run("Who has the key?", passage=long_passage())
    seen = answer.look()
    assert seen.names == ["encoder.layers.0.self", "encoder.layers.1.self"]
    assert seen[seen.names[0]].weights().shape[-1] <= 64


def test_the_report_shows_passages_with_their_spans(run: Run) -> None:
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    for word in ("Examples", "Kinds of questions", 'class="passage"', "exact_window", "first words", "right"):
        assert word in page
    assert "mirada run" in page
    assert "--passage -" in page


def test_errors_are_shown_with_what_was_wanted(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    splits = run.splits()
    answers = run([record.value for record in splits.valid])
    section = {s.heading: s for s in run.task.sections(run, splits.valid, answers)}
    assert section["Worst errors"].items == ()
    wrong = [type(answer)(answer.input, "nobody", 0.5, answer.value) for answer in answers]
    section = {s.heading: s for s in run.task.sections(run, splits.valid, wrong)}
    assert len(section["Worst errors"].items) == min(6, len(answers))


# training


def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = (*QUICK, "length=64", "save_seconds=0")
    whole = trained("answer", data, tmp_path / "whole", *keys)
    real = Training.step

    def step(self: Any, state: Any, stop: Any) -> Any:
        if state.step == 3 and state.steps == 6:
            raise KeyboardInterrupt
        return real(self, state, stop)

    with monkeypatch.context() as patched:
        patched.setattr(Training, "step", step)
        with pytest.raises(BaseException, match="stopped"):
            trained("answer", data, tmp_path / "again", *keys)
    trained("answer", data, tmp_path / "again", *keys, resume=True)
    for name in ("model.safetensors", "tokenizer.json"):
        assert (tmp_path / "again" / name).read_bytes() == (whole.folder / name).read_bytes()


def test_a_loaded_run_answers_as_the_trained_one(run: Run) -> None:
    again = load(run.folder)
    assert again.known.longest == run.known.longest == 1
    assert again.known.unanswerable
    one, other = (each("Who has the key?", passage=PASSAGE) for each in (run, again))
    assert (one.text, one.score) == (other.text, other.score)


def test_training_from_another_run_keeps_its_tokens(tmp_path: Path, run: Run) -> None:
    rows = [
        (f"Who sold the {thing}?", f"{name} sold the {thing}.", name)
        for thing in ("car", "house")
        for name in ("Ana", "Eva", "Leo")
    ]
    more = mirada.train("answer", data=rows, start=run.folder, out=tmp_path / "more", steps=2)
    assert more.known.tokenizer.to_json() == run.known.tokenizer.to_json()
    assert not more.known.unanswerable


def test_marks_can_be_left_out(tmp_path: Path, data: str) -> None:
    run = trained("answer", data, tmp_path / "run", *QUICK, "length=64", "marks=0")
    answer = run("Who has the key?", passage=PASSAGE, aligned=True)
    assert answer.weights is not None
    assert run.model.marks is None
    with pytest.raises(ValueError, match=f"marks must be {MARKS}, or 0 for none: got 3"):
        trained("answer", data, tmp_path / "other", *QUICK, "marks=3")


def test_data_in_memory_and_splits(tmp_path: Path) -> None:
    run = trained("answer", questions(), tmp_path / "run", *QUICK, "length=64", "split=0.6,0.2,0.2")
    splits = run.task.read(Source(questions()), run.options)
    sets = [{record.value.passage for record in part} for part in (splits.train, splits.valid, splits.test)]
    assert all(sets)
    assert sets[0].isdisjoint(sets[1] | sets[2])
    assert sets[1].isdisjoint(sets[2])


def test_passages_of_a_folder_that_is_divided(tmp_path: Path) -> None:
    rows = questions()
    for name, part in (("train", rows[:50]), ("valid", rows[45:60]), ("test", rows[60:])):
        write_questions(tmp_path / f"{name}.jsonl", part)
    splits = AnswerQuestions().read(Source(str(tmp_path)), QuestionOptions())
    assert [len(part) for part in (splits.train, splits.valid, splits.test)] == [50, 15, len(rows) - 60]
    shared = sum(row[1] in {r[1] for r in rows[:50]} for row in rows[45:60])
    assert shared >= 5
    assert any(
        note
        == f"{shared} questions of valid are about passages of the training data, so that they measure less than they seem to"
        for note in splits.notes
    )


# what cannot be done


@pytest.mark.parametrize(
    ("given", "ask", "message"),
    [
        (
            "Who?",
            {},
            "a question needs a passage that contains its answer: 'Who\\?' has none. Give it with --passage FILE",
        ),
        ("Who?", {"passage": "  \n"}, "a question needs a passage"),
        ("", {"passage": "a"}, "there is no question in an input"),
        (("Who?", "a", "b"), {}, "an input is a question, or a pair of a question and its passage"),
        (7, {"passage": "a"}, "an input is a question, or a pair of a question and its passage: got '7'"),
        ("who " * 40, {"passage": "a"}, "too long: the question has 40 tokens, at most 29 fit"),
        ("Who?", {"passage": "\u200b\u2028"}, None),
        ("Who?", {"passage": "a", "best": 0}, "best must be at least 1: got 0"),
        ("Who?", {"passage": "a", "beam": 2}, "beam is not used by answer; it takes best, passage, truncate"),
    ],
)
def test_what_cannot_be_answered_is_refused(run: Run, given: Any, ask: dict, message: str | None) -> None:
    if message is None:
        assert run(given, **ask).to_dict()["input"] == given
        return
    with pytest.raises(ValueError, match=message):
        run(given, **ask)


def test_a_model_that_diverged_says_so(tmp_path: Path) -> None:
    run = trained("answer", [row for row in questions() if row[2]], tmp_path / "run", *QUICK, "length=64")
    torch.nn.init.constant_(run.model.ends.weight, torch.nan)
    with pytest.raises(ValueError, match="the scores of this model are not numbers: its training diverged"):
        run("Who has the key?", passage=PASSAGE)


def test_problems_of_the_model_are_named(tmp_path: Path) -> None:
    long = ("Who " * 20, "Ana came.", "Ana", 0)
    wide = ("Who?", "Ana came " * 20, ("Ana came " * 20).strip(), 0)
    path = write_questions(tmp_path / "a.jsonl", [*questions(), long, wide])
    with pytest.raises(ValueError, match=r"a.jsonl:\d+: too long: the question has 20 tokens, at most 13 fit") as told:
        trained("answer", path, tmp_path / "run", *QUICK, "length=32")
    assert "too long: the answer has 40 tokens, at most 8 fit. Take a longer length." in str(told.value)
    run = trained("answer", path, tmp_path / "run", *QUICK, "length=32", "bad=skip")
    assert len(run.splits().problems) == 2


def test_nothing_to_learn_from(tmp_path: Path) -> None:
    rows = [(f"Who {n}?", f"Nobody {n}.", None, None) for n in range(9)]
    with pytest.raises(ValueError, match="no question has an answer in its passage: there is nothing to learn from"):
        trained("answer", rows, tmp_path / "run", *QUICK)


# the builtin stories


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained("answer", "", tmp_path_factory.mktemp("runs") / "answer")


@pytest.mark.slow
def test_the_stories_are_learned(reader: Run) -> None:
    found = reader.measure()
    assert found["exact"] >= 95
    assert found["exact"] > found["exact_window"] + 40
    splits = reader.splits()
    unanswerable = [record for record in splits.test if not record.value.spans]
    assert reader.task.measure(reader, unanswerable)[0]["exact"] >= 90


@pytest.mark.slow
@pytest.mark.parametrize(
    ("passage", "answers"),
    [
        (
            "Ana went to the park. Then she picked up the key. John walked to the museum. Ana gave the key to John.",
            {"Where is Ana?": "park", "Who has the key?": "John", "Where is the key?": "museum", "Where is Lucy?": ""},
        ),
        (
            "Luis fue a la playa porque tenía frío. Ana tomó el libro. Ana le dio el libro a Luis. Luis volvió al cine.",
            {
                "¿Dónde está Luis?": "cine",
                "¿Por qué fue Luis a la playa?": "tenía frío",
                "¿Quién tiene el libro?": "Luis",
            },
        ),
    ],
)
def test_stories_of_ones_own_are_understood(reader: Run, passage: str, answers: dict[str, str]) -> None:
    assert {question: reader(question, passage=passage).text for question in answers} == answers
