"""An answer shows itself: in a notebook too, whatever model it came from."""

from mirada.looking.record import Seen
from mirada.runs.answers import Answer


def nowhere() -> Seen:
    raise ValueError("look found no Attention layer in <RNN>")


def test_an_answer_of_a_model_without_attention_is_a_cell_of_a_notebook() -> None:
    markup = Answer("the house", "la <casa>", -0.5, replay=nowhere)._repr_html_()
    assert markup == "<p><b>la &lt;casa&gt;</b></p><p>look found no Attention layer in &lt;RNN&gt;</p>"
    assert Answer("the house", "la casa", -0.5)._repr_html_() == "<p><b>la casa</b></p>"
