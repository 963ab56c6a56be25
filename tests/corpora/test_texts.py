"""The embedded texts as they are read; what they hold is tested with their generators, in `tests/tools/corpora/`."""

import sys

import pytest

from mirada.corpora.texts import embedded_texts


@pytest.mark.parametrize(
    ("corpus", "sizes"),
    {
        "english_spanish": {"train": 42_291, "valid": 500, "test": 1000, "context": 312},
        "sentiment": {"train": 8000, "valid": 500, "test": 1000},
        "places": {"train": 12_000, "valid": 500, "test": 1000},
        "stories": {"story": 7130, "train": 12_000, "valid": 600, "test": 1200},
    }.items(),
)
def test_every_row_has_the_fields_of_its_set(corpus: str, sizes: dict[str, int]) -> None:
    sets = embedded_texts(corpus)
    assert {name: len(rows) for name, rows in sets.items()} == sizes
    fields = {("english_spanish", "context"): {5}, ("stories", "story"): {1}}
    for name, rows in sets.items():
        asked = {2, 4} if corpus == "stories" else {2}  # a question without an answer has no places
        assert {len(row) for row in rows} == fields.get((corpus, name), asked)
        assert all(all(row) for row in rows)


def test_a_python_without_bzip2_is_told_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bz2", None)
    with pytest.raises(ValueError, match=r"built without it\. Pass --data a file"):
        embedded_texts("sentiment")
