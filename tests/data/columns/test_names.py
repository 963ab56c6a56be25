"""Columns by their names, in two languages, and what is not such a name."""

import pytest

from mirada.data.columns.names import match_names

CLASSES, PAIR = ("text", "label"), ("source", "target")


@pytest.mark.parametrize(
    ("names", "columns", "picked"),
    [
        (["id", "Text", "label"], CLASSES, (1, 2)),
        (["RESEÑA", "CATEGORÍA"], CLASSES, (0, 1)),
        (["resen\u0303a", "categori\u0301a"], CLASSES, (0, 1)),  # accents as a Mac writes them
        (["overallScore", "reviewText"], CLASSES, (1, 0)),
        (["comment text", "comment class"], CLASSES, (0, 1)),
        (["text", "label", "label_text"], CLASSES, (0, 1)),
        (["sentence", "label_text"], CLASSES, (0, 1)),
        (["tweet_id", "airline_sentiment", "airline_sentiment_confidence", "text"], CLASSES, (3, 1)),
        (["Class Index", "Title", "Description"], CLASSES, (2, 0)),
        (["titular", "tema"], CLASSES, (0, 1)),
        (["text_id", "text_length", "class"], CLASSES, (None, 2)),
        (["text", "label_count"], CLASSES, (0, None)),
        (["english", "spanish"], PAIR, (0, 1)),
        (["es", "en"], PAIR, (0, 1)),
        (["id", "sentence_es", "sentence_fr"], PAIR, (1, 2)),
        (["translation", "English"], PAIR, (1, 0)),
        (["target", "source"], PAIR, (1, 0)),
        (["Traducción", "Original"], PAIR, (1, 0)),
        (["en", "es", "fr"], PAIR, (None, None)),
        (["english", "inglés"], PAIR, (None, None)),
        (["the source", "of the river"], PAIR, (0, None)),
        (["Texto en inglés", "Texto en español"], PAIR, (0, 1)),
        (["Frase en inglés", "Traducción al español"], PAIR, (0, 1)),
        (["Traducción al español", "Frase en inglés"], PAIR, (1, 0)),
        (["Text in German", "Text in French"], PAIR, (0, 1)),
        (["a la", "to the"], PAIR, (None, 1)),
        (["de la", "of the"], PAIR, (None, None)),
        (["archivo", "texto"], ("name", "text"), (0, 1)),
        (["image", "comment"], ("name", "caption"), (0, 1)),
        (["id", "imagen", "descripción"], ("name", "caption"), (1, 2)),
        (["id", "text"], ("name", "text"), (0, 1)),
        (["noticia", "sección"], CLASSES, (0, 1)),
        (["Abstract", "Area"], CLASSES, (0, 1)),
        (["quejas", "departamento"], CLASSES, (0, 1)),
        (["review", "product", "rating"], CLASSES, (0, 2)),
        (["pregunta", "pasaje", "respuesta", "inicio"], ("question", "context", "answer", "start"), (0, 1, 2, 3)),
        (["answer_text", "answer_start"], ("answer", "start"), (0, 1)),
    ],
)
def test_columns_by_name(names: list[str], columns: tuple[str, ...], picked: tuple[int | None, ...]) -> None:
    assert match_names(names, columns).picked == picked


def test_names_that_are_as_good_as_each_other_are_rivals() -> None:
    assert match_names(["review", "stars", "sentiment"], CLASSES).rivals == {"label": (1, 2)}
    assert match_names(["text", "text", "label"], CLASSES).rivals == {"text": (0, 1)}
    assert match_names(["sentence1", "sentence2", "label"], CLASSES).rivals == {"text": (0, 1)}
    assert match_names(["label", "stars", "text"], CLASSES).rivals == {}


def test_only_plain_names_are_sure() -> None:
    assert match_names(["Review", "Stars"], CLASSES).is_certain
    assert match_names(["a bad review", "stars"], CLASSES).is_complete
    assert not match_names(["a bad review", "stars"], CLASSES).is_certain
    assert match_names(["a bad review", "stars"], CLASSES).is_partly_certain
