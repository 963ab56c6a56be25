"""Sentences about travels: what they hold, and which names only held-out ones have."""

from mirada.corpora.travels import TEST, TRAIN, VALID, travels


def test_sets_are_whole_and_share_no_sentence() -> None:
    sets = travels()
    assert [len(rows) for rows in sets.values()] == [TRAIN, VALID, TEST]
    texts = [words for rows in sets.values() for words, _ in rows]
    assert len(set(texts)) == len(texts)
    assert all(len(words) == len(tags) for rows in sets.values() for words, tags in rows)
    assert {tag for _, tags in sets["train"] for tag in tags} == {
        "O",
        *(f"{p}-{k}" for p in "BI" for k in ("PER", "LOC", "DATE")),
    }


def test_some_names_are_of_held_out_sentences_only_and_some_are_of_two_kinds() -> None:
    sets = travels()
    learned = {word for words, _ in sets["train"] for word in words}
    new = {word for words, tags in sets["test"] for word, tag in zip(words, tags, strict=True) if tag != "O"} - learned
    assert len(new) > 20
    kinds = {tag[2:] for words, tags in sets["train"] for word, tag in zip(words, tags, strict=True) if word == "Paris"}
    assert kinds == {"PER", "LOC"}
    kinds = {tag[2:] for words, tags in sets["train"] for word, tag in zip(words, tags, strict=True) if word == "May"}
    assert kinds == {"PER", "DATE"}
