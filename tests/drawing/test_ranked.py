"""Candidates with their scores."""

from mirada.drawing import Ranked
from tests.drawing.parsed import NAN, page_of


def test_ranked_words() -> None:
    root = page_of(Ranked("una nueva ___ .", (("película", 0.8123), ("obra", 0.05), ("mesa", NAN)), "obra"))
    assert [node.text for node in root.all("li")] == ["película0.8123", "obra \u2713 wanted0.05", "mesanan"]
    widths = [bar.attributes["style"] for bar in root.all("i")]
    assert widths == ["width:81.23%", "width:5%", "width:0%"]
    assert len(root.all(kind="gap")) == 1
    assert "not among these" not in root.text
    missed = page_of(Ranked("[MASK] <mask>", (("a", 12.0), ("b", 3.0), ("c", -2.0)), "d"))
    assert [bar.attributes["style"] for bar in missed.all("i")] == ["width:100%", "width:25%", "width:0%"]
    assert missed.all(kind="missed")[0].text == "wanted d, not among these"
    assert len(missed.all(kind="gap")) == 2
    assert "nan" in page_of(Ranked("___", (("a", NAN), ("b", -1.0)))).text
