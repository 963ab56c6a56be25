"""What the default trainings on the builtin data reach. Slow: some minutes each on two cores."""

from pathlib import Path

import pytest

from mirada.runs.run import Run
from mirada.runs.train import execute
from tests.runs.small import request

pytestmark = pytest.mark.slow


def trained(task: str, folder: Path, *keys: str) -> Run:
    return execute(request(task, keys=keys, out=str(folder / task)))


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained("translate", tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def filler(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained("fill", tmp_path_factory.mktemp("runs"))


def test_the_grammar_is_learned_with_its_words_in_context(translator: Run) -> None:
    found = translator.measure()
    assert found["bleu"] >= 95
    assert found["context"] >= 95


@pytest.mark.parametrize("mark", ["", "."])
def test_letter_is_what_the_sentence_makes_it(translator: Run, mark: str) -> None:
    assert "carta" in translator(f"I am writing a letter to her{mark}").text.split()
    assert "letra" in translator(f"the first letter of the word{mark}").text.split()


@pytest.mark.parametrize("mark", ["", "."])
def test_the_lectures_sentence(translator: Run, mark: str) -> None:
    assert translator(f"I want to go to the cinema{mark}").text == f"Quiero ir al cine{mark}"


def test_an_adjective_looks_across_the_noun_it_changes_places_with(translator: Run) -> None:
    """the red house, la casa roja: the last two words look at the last two, crosswise."""
    answer = translator("the red house", aligned=True)
    assert answer.text == "la casa roja"
    assert answer.weights is not None
    read, written = list(answer.read), list(answer.written)
    if len(written) == 3 and len(read) == 4:
        casa, roja = answer.weights[1], answer.weights[2]
        assert casa[read.index("house")] > casa[read.index("red")]
        assert roja[read.index("red")] > roja[read.index("house")]


def test_the_other_direction(tmp_path: Path) -> None:
    run = trained("translate", tmp_path, "reverse=yes")
    assert run.measure()["bleu"] >= 95
    assert run("Me gustan los nachos").text == "I like nachos"


@pytest.mark.parametrize("mark", ["", "."])
def test_what_one_sees_at_the_cinema(filler: Run, mark: str) -> None:
    words = ("tienda", "película", "exposición", "comedia")
    ranked = filler(f"Ana va al cine a ver una nueva ___{mark}", candidates=words).ranked
    assert {word for word, _ in ranked[:2]} == {"película", "comedia"}
    assert ranked[1][1] > 10 * ranked[2][1]


def test_hidden_words_and_the_order_of_sentences(filler: Run) -> None:
    found = filler.measure()
    assert found["word_accuracy"] > 70
    assert found["order_accuracy"] > 80


def test_negation_and_contrast(tmp_path: Path) -> None:
    assert trained("classify", tmp_path).measure()["accuracy"] >= 95
