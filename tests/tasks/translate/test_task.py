"""translate: from pairs to translations, with what the model looked at."""

import csv
import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from mirada import DropHead, intervene
from mirada.data.text.tokenize import END, UNKNOWN, Tokenizer
from mirada.decoding.search import Hypothesis
from mirada.runs.load import load
from mirada.runs.run import Run
from mirada.tasks.translate.metrics import has_right_word
from mirada.tasks.translate.pairs import PairVocabulary
from mirada.tasks.translate.task import Translate, as_answer, written_text
from tests.runs.small import SIZES, pairs, read, request, trained, write_rows

SENTENCES = ["we buy the red car.", "I see a house.", "they have the small old red table."]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_rows(tmp_path_factory.mktemp("data") / "pairs.tsv", pairs())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, data: str) -> Run:
    keys = (
        "width=64",
        "hidden=128",
        "depth=1",
        "heads=2",
        "steps=120",
        "validate=60",
        "lr=5e-3",
        "dropout=0",
        "vocab=200",
    )
    return trained("translate", data, tmp_path_factory.mktemp("run") / "es", *keys)


def test_a_run_leaves_its_files(run: Run) -> None:
    names = {path.name for path in run.folder.iterdir()}
    files = {"config.json", "model.safetensors", "tokenizer.json", "metrics.jsonl", "report.html", "checkpoints"}
    assert names == files


def test_it_learns_to_translate(run: Run) -> None:
    metrics = run.measure()
    assert set(metrics) == {"bleu", "chrf", "bleu_nearest", "chrf_nearest"}
    assert metrics["bleu"] > 50
    assert run("we buy the red car.").text == "compramos el coche rojo."


@pytest.mark.parametrize("beam", [1, 3])
def test_an_answer_under_an_intervention_is_another(run: Run, beam: int) -> None:
    plain = run(SENTENCES[0], beam=beam)
    assert run.stepper is not run.model
    with intervene(run.model, {"decoder.layers.0.cross": [DropHead(0), DropHead(1)]}):
        assert run.stepper is run.model
        changed = run(SENTENCES[0], beam=beam)
    assert changed.score != plain.score
    assert run(SENTENCES[0], beam=beam).text == plain.text


def test_a_loaded_run_answers_as_the_trained_one(run: Run) -> None:
    again = load(run.folder)
    assert [a.text for a in again(SENTENCES)] == [a.text for a in run(SENTENCES)]
    torch.testing.assert_close([a.score for a in again(SENTENCES)], [a.score for a in run(SENTENCES)])


def test_many_inputs_are_answered_as_each_alone_and_in_their_order(run: Run) -> None:
    together, alone = run(SENTENCES), [run(text) for text in SENTENCES]
    assert [a.input for a in together] == SENTENCES
    assert [a.text for a in together] == [a.text for a in alone]
    assert all(a.score <= 0 for a in together)
    assert run([]) == []


@pytest.mark.parametrize("ask", [{}, {"beam": 3}, {"temperature": 1.0, "seed": 5}], ids=str)
def test_alignments_have_a_row_for_every_token_whatever_the_search(run: Run, ask: dict) -> None:
    for answer in run(SENTENCES, aligned=True, **ask):  # sources of three lengths: two of them are padded
        assert answer.read[-1] == "</s>"
        assert answer.weights is not None
        assert answer.weights.shape == (len(answer.written), len(answer.read))
        torch.testing.assert_close(answer.weights.sum(-1), torch.ones(len(answer.written)))


def test_a_single_answer_has_its_weights_unasked(run: Run) -> None:
    answer = run(SENTENCES[0])
    assert answer.weights.shape == (len(answer.written), len(answer.read))
    torch.testing.assert_close(answer.weights, run(SENTENCES[0], aligned=True).weights)
    assert answer.text == run(SENTENCES[:1])[0].text


def test_an_alignment_does_not_depend_on_the_batch(run: Run) -> None:
    together, alone = run(SENTENCES, aligned=True, beam=2)[1], run(SENTENCES[1], aligned=True, beam=2)
    assert together.weights is not None
    torch.testing.assert_close(together.weights, alone.weights, rtol=1e-4, atol=1e-5)


def test_the_best_answers_come_in_order(run: Run) -> None:
    answer = run(SENTENCES[0], best=3)
    scores = [score for _, score in answer.ranked]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert answer.ranked[0] == (answer.text, answer.score)
    assert len({text for text, _ in answer.ranked}) == 3
    described = json.loads(json.dumps(answer.to_dict()))
    assert set(described) == {"input", "text", "score", "ranked"}
    assert described["ranked"][0] == {"text": answer.text, "score": answer.score}


def test_drawing_is_a_function_of_the_seed(run: Run) -> None:
    drawn = [[a.text for a in run(SENTENCES, temperature=3.0, seed=seed)] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_looking_at_an_answer(run: Run) -> None:
    answer = run(SENTENCES[0])
    seen = answer.look()
    assert seen.names == ["encoder.layers.0.self", "decoder.layers.0.self", "decoder.layers.0.cross"]
    weights = seen["decoder.layers.0.cross"].weights()
    assert weights.shape == (1, 2, len(answer.written) + 1, len(answer.read))
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 2, len(answer.written) + 1))


def test_a_limit_of_tokens(run: Run) -> None:
    assert len(run(SENTENCES[0], tokens=2).written) == 2


@pytest.mark.parametrize(
    ("text", "ask", "message"),
    [
        ("", {}, "nothing to translate"),
        (" \t ", {}, "nothing to translate"),
        ("house " * 600, {}, r"the model reads at most 512.*Cut it"),
        ("a", {"candidates": ("b",)}, "candidates is not used by translate; it takes beam"),
        ("a", {"top_k": 3}, "give a temperature as well"),
        ("a", {"top_p": 0.5}, "give a temperature as well"),
        ("a", {"beam": 2, "temperature": 1.0}, "a beam draws nothing"),
        ("a", {"coverage": 0.2}, "ask for one as well, such as beam=4"),
        ("a", {"length_penalty": 2.0}, "ask for one as well, such as beam=4"),
        ("a", {"beam": 0}, "beam and best must be at least 1"),
        ("a", {"tokens": -1}, "tokens must be at least 1"),
        ("a", {"temperature": float("nan")}, "temperature must not be negative"),
    ],
)
def test_what_cannot_be_answered_is_refused(run: Run, text: str, ask: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(text, **ask)


def test_the_report_shows_examples_with_what_was_wanted(run: Run) -> None:
    page = (run.folder / "report.html").read_text(encoding="utf-8")
    wanted = run.splits().valid[0].value[1]
    assert "Examples" in page
    assert wanted in page
    assert "BLEU".lower() in page.lower()
    assert f"mirada eval {run.folder}" in page


@pytest.mark.parametrize("model", ["bahdanau", "luong", "luong-local-m", "luong-local-p", "rnn"])
def test_every_model_trains_answers_and_reports(tmp_path: Path, data: str, model: str) -> None:
    run = trained("translate", data, tmp_path / "run", "steps=3", "validate=3", "width=16", "hidden=24", model=model)
    assert (run.folder / "report.html").stat().st_size > 1000
    plain, beam = run(SENTENCES[0], aligned=True), run(SENTENCES[0], aligned=True, beam=2)
    if model == "rnn":
        assert plain.weights is beam.weights is None
        assert "wanted" in (run.folder / "report.html").read_text(encoding="utf-8")
        with pytest.raises(ValueError, match="look found no mirada Attention"):
            plain.look()
        return
    for answer in (plain, beam):
        assert answer.weights is not None
        assert answer.weights.shape == (len(answer.written), len(answer.read))
        assert float(answer.weights.sum(-1).max()) < 1 + 1e-5  # local attention may leave some weight outside
    assert len(plain.look().names) == 1


def read_fields(data: str, *keys: str) -> list[tuple[str, ...]]:
    splits = read(request("translate", data=data, keys=keys).settings())
    return [record.value for record in (*splits.train, *splits.valid)]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("form", ["tsv", "csv", "jsonl", "aligned"])
def test_every_format_gives_the_same_records(tmp_path: Path, data: str, form: str, packed: bool) -> None:
    rows, source, target = pairs(), tmp_path / "a.en", tmp_path / "a.es"
    files = [source, target] if form == "aligned" else [tmp_path / f"a.{form}"]
    if form == "csv":
        with files[0].open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("source", "target"), *rows])
    elif form == "jsonl":
        lines = [json.dumps(dict(zip(("source", "target"), row, strict=True))) for row in rows]
        files[0].write_text("\n".join(lines), encoding="utf-8")
    elif form == "aligned":
        for file, side in zip(files, zip(*rows, strict=True), strict=True):
            file.write_text("\r\n".join(side), encoding="utf-8")
    else:
        write_rows(files[0], rows)
    if packed:
        for file in files:
            file.with_name(file.name + ".gz").write_bytes(gzip.compress(file.read_bytes()))
        files = [file.with_name(file.name + ".gz") for file in files]
    assert read_fields(", ".join(map(str, files))) == read_fields(data)


def test_reversed_pairs(data: str) -> None:
    there, back = read_fields(data), read_fields(data, "reverse=yes")
    assert sorted(back) == sorted((target, source) for source, target in there)


def test_unknown_words_are_copied_from_where_the_model_looked() -> None:
    tokenizer = Tokenizer.train(["the house is red, my friend.", "la casa es roja, amigo."] * 2, kind="word")
    la, casa, comma, stop = tokenizer.encode("la casa, amigo.")[0:3] + tokenizer.encode("roja.")[1:]

    def written(tokens: list[int], source: str, *looked: int) -> str:
        pieces = tokenizer.pieces(source)
        alignment = torch.full((len(tokens), len(pieces) + 1), 0.01)
        for row, place in enumerate(looked):
            alignment[row, place] = 0.9
        return written_text(PairVocabulary(tokenizer), Hypothesis(tokens, -1.0, -1.0, True, alignment), pieces)

    # words: the Alhambra, Ana.  -> places 0 1 2 3 4, the end 5
    assert written([la, UNKNOWN, comma, UNKNOWN, stop], "the Alhambra, Ana.", 0, 1, 2, 3, 4) == "la Alhambra, Ana."
    assert written([la, UNKNOWN, stop], "the Alhambra.", 0, 5 - 2, 2) == "la Alhambra."  # it looked at the end
    assert written([la, UNKNOWN, stop], "the Alhambra.", 0, 0, 2) == "la Alhambra."  # what is known needs no copy
    assert written([la, UNKNOWN, stop], "the house.", 0, 2, 2) == "la the."  # a sign is no word
    assert written([la, casa, stop], "the house.", 0, 1, 2) == "la casa."
    assert written([UNKNOWN], "?!", 1) == "!"


def test_without_alignment_an_unknown_word_stays_unknown() -> None:
    tokenizer = Tokenizer.train(["la casa."], kind="word")
    found = Hypothesis([*tokenizer.encode("la"), UNKNOWN, *tokenizer.encode("casa.")], -1.0, -1.0, True)
    assert written_text(PairVocabulary(tokenizer), found, tokenizer.pieces("the house.")) == "la <unk> casa."


def test_words_that_were_never_seen_reach_the_translation(tmp_path: Path) -> None:
    rows = [(f"{name} sees {other}.", f"{name} ve a {other}.") for name in "ABCDEFGH" for other in "KLMNOPQR"]
    run = trained(
        "translate", write_rows(tmp_path / "names.tsv", rows), tmp_path / "run",
        *SIZES, "tokenizer=word", "vocab=10", "steps=60", "validate=60", "lr=1e-2", "dropout=0",
    )  # fmt: skip
    answer = run("Zoe sees Zoe.")
    assert "<unk>" not in answer.text
    assert "Zoe" in answer.text
    assert answer.text.endswith(".")
    assert " ." not in answer.text


def test_a_text_that_was_cut_has_labels_for_what_was_read(tmp_path: Path, data: str) -> None:
    run = trained(
        "translate", data, tmp_path / "run", *SIZES, "steps=2", "validate=2", "length=8", "tokenizer=word", "bad=skip"
    )
    text = "we buy the red car. " * 5 + "Zoe"
    answer = run(text, truncate=True, tokens=3)
    assert answer.read == ("we", "buy", "the", "red", "car", ".", "we", "</s>")
    assert answer.weights.shape == (len(answer.written), 8)
    source = [*run.known.tokenizer.encode(text)[:7], END]
    looked = Hypothesis([UNKNOWN], -1.0, -1.0, True, torch.full((2, 8), 0.125))
    assert as_answer(run, text, source, [looked]).text in text.split(), "the unknown Zoe was not read"


def test_the_word_that_context_asks_for() -> None:
    assert has_right_word("Escribo una carta.", "carta", "letra|letras")
    assert not has_right_word("Escribo una letra.", "carta", "letra")
    assert not has_right_word("una carta, la letra", "carta", "letra")
    assert not has_right_word("cartas", "carta", "letra")


def test_models_by_name() -> None:
    with pytest.raises(ValueError, match=r"unknown model for translate 'transfomer'.*Did you mean 'transformer'"):
        Translate().preset("transfomer")


def test_a_run_that_translates_back_reads_the_other_column(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "new.csv"
    path.write_text("id,english,spanish\n7,a house,una casa\n", encoding="utf-8")
    assert run.task.questions(run, str(path)).rows[0].input == "a house"
    back = replace(run, settings=replace(run.settings, data=replace(run.options, reverse=True)))
    assert back.task.questions(back, str(path)).rows[0].input == "una casa"


def test_an_answer_is_plotted_by_layer_and_head(run: Run, tmp_path: Path) -> None:
    answer = run("I see a red house.")
    shown = answer.plot("decoder.layers.0.cross", 1)
    assert shown.size == answer.plot(-1, 1).size, "a layer by its number"
    assert shown.tobytes() == answer.plot("decoder.layers.0.cross", head=1, path=tmp_path / "x.svg").tobytes()
    assert (tmp_path / "x.svg").read_bytes().startswith(b"<?xml")
    answer.plot(str(tmp_path / "y.png"))
    assert (tmp_path / "y.png").exists()
    with pytest.raises(ValueError, match=r"layer must lie in 0\.\.2: got 7"):
        answer.plot(7)
