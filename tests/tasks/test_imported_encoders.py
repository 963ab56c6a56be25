"""Encoders of checkpoints answer as transformers does: words, labels, spans and vectors, from a folder to an answer."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.testing import assert_close

transformers = pytest.importorskip("transformers")

from tokenizers import BertWordPieceTokenizer, ByteLevelBPETokenizer  # noqa: E402

import mirada  # noqa: E402
from mirada.runs.run import Run  # noqa: E402

TEXTS = ["the red house is old.", "Ana has a key to the house", "a car is red and new", "who has the old key?"] * 3
SIZES = {
    "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 31,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}  # fmt: skip
KINDS = ["bert", "roberta"]
NEAR = {"atol": 1e-4, "rtol": 1e-4}


def their_tokenizer(kind: str, home: Path) -> Any:
    """Word pieces as BERT has them, or pieces of bytes as RoBERTa has them, learned from a few texts."""
    if kind == "bert":
        learner = BertWordPieceTokenizer(lowercase=True)
        learner.train_from_iterator(TEXTS, vocab_size=90, min_frequency=1)
        learner.save_model(str(home))
        return transformers.BertTokenizerFast(vocab=str(home / "vocab.txt"))
    byte_level = ByteLevelBPETokenizer()
    byte_level.train_from_iterator(
        TEXTS, vocab_size=330, min_frequency=1, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    )
    byte_level.save_model(str(home))
    return transformers.RobertaTokenizerFast(vocab=str(home / "vocab.json"), merges=str(home / "merges.txt"))


class Both:
    """A model of theirs with its tokenizer, and the run that was imported from its folder."""

    def __init__(self, kind: str, head: str, home: Path, **settings: Any) -> None:
        stem = {"bert": "Bert", "roberta": "Roberta"}[kind]
        (home / "vocab").mkdir()
        self.tokenizer = their_tokenizer(kind, home / "vocab")
        longest = {"bert": 48, "roberta": 50}[kind]
        torch.manual_seed(5)
        config = getattr(transformers, f"{stem}Config")(
            vocab_size=len(self.tokenizer), max_position_embeddings=longest, pad_token_id=self.tokenizer.pad_token_id,
            **SIZES, **settings,
        )  # fmt: skip
        self.model = getattr(transformers, f"{stem}{head}")(config).eval()
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
        self.model.save_pretrained(home / "theirs")
        self.tokenizer.save_pretrained(home / "theirs")
        self.home = home

    def run(self, task: str = "") -> Run:
        return mirada.import_model(self.home / "theirs", self.home / "run", task=task)

    @torch.no_grad()
    def output(self, *texts: str, **more: Any) -> Any:
        return self.model(**self.tokenizer(*texts, return_tensors="pt"), **more)


Make = Callable[..., Both]


@pytest.fixture
def both(tmp_path: Path) -> Make:
    return lambda kind, head, **settings: Both(kind, head, tmp_path, **settings)


@pytest.mark.parametrize("kind", KINDS)
def test_words_for_a_gap_are_ranked_as_theirs(both: Make, kind: str) -> None:
    made = both(kind, "ForMaskedLM")
    run, mask = made.run(), made.tokenizer.mask_token
    assert (run.task.name, run.settings.name) == ("fill", "encoder")
    text = "the ___ house is old."
    given = made.tokenizer(text.replace("___", mask), return_tensors="pt")
    place = int((given["input_ids"][0] == made.tokenizer.mask_token_id).nonzero()[0])
    shares = made.output(text.replace("___", mask)).logits[0, place].softmax(-1)
    shares[made.tokenizer.all_special_ids] = 0
    answer = run(text, best=3)
    assert_close(answer.score, float(shares.max()), **NEAR)
    assert answer.text == run.known.tokenizer.token(int(shares.argmax()))
    ranked = run(text, candidates=("red", "old")).ranked
    for word, share in ranked:
        ids = made.tokenizer.encode(f" {word}" if kind == "roberta" else word, add_special_tokens=False)
        if len(ids) == 1:
            assert_close(share, float(shares[ids[0]]), **NEAR)
    seen = answer.look()
    assert_close(
        seen[seen.names[-1]].weights()[0], made_attention(made, text.replace("___", mask)), atol=1e-5, rtol=1e-4
    )
    with pytest.raises(ValueError, match="tells missing words only"):
        run("the red house.\tit is old.")


def made_attention(made: Both, *texts: str) -> torch.Tensor:
    """The weights of the last layer of theirs."""
    made.model.set_attn_implementation("eager")
    weights: torch.Tensor = made.output(*texts, output_attentions=True).attentions[-1][0]
    return weights


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", ["the red house is old.", "the red house.\tit is old, and who has the key"])
def test_a_text_or_a_pair_of_texts_has_the_probabilities_of_theirs(both: Make, kind: str, text: str) -> None:
    names = {0: "bad", 1: "good", 2: "new"}
    made = both(kind, "ForSequenceClassification", id2label=names, label2id={v: k for k, v in names.items()})
    run = made.run()
    answer = run(text, best=3)
    shares = made.output(*text.split("\t")).logits[0].softmax(-1)
    assert answer.text == names[int(shares.argmax())]
    assert_close(dict(answer.ranked), {names[n]: float(x) for n, x in enumerate(shares)}, **NEAR)
    seen = answer.look()
    weights = seen[seen.names[-1]].weights()[0]
    assert_close(weights, made_attention(made, *text.split("\t")), atol=1e-5, rtol=1e-4)
    spans = [span for span in seen.labels.axes["text"].spans if span]  # type: ignore[union-attr]
    assert "".join(text[slice(*span)] for span in spans) == text.replace(" ", "").replace("\t", "")


def test_labels_of_which_a_text_has_several_are_answered_so(both: Make, tmp_path: Path) -> None:
    names = {0: "bad", 1: "good", 2: "new"}
    more = {"id2label": names, "problem_type": "multi_label_classification"}
    made = both("bert", "ForSequenceClassification", **more)
    run = made.run()
    shares = made.output(TEXTS[0]).logits[0].sigmoid()
    answer = run(TEXTS[0], best=3)
    assert_close(dict(answer.ranked), {names[n]: float(x) for n, x in enumerate(shares)}, **NEAR)
    likely = sorted(names[n] for n, x in enumerate(shares) if x > 0.5)
    assert answer.text == (", ".join(likely) or names[int(shares.argmax())])
    data = tmp_path / "rated.csv"
    data.write_text("text,label\n" + "".join(f'"{text}","good, new"\n' for text in dict.fromkeys(TEXTS)))
    assert set(run.measure(str(data))) >= {"micro_f1"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_span_of_an_answer_is_theirs(both: Make, kind: str) -> None:
    made = both(kind, "ForQuestionAnswering")
    run = made.run()
    question, passage = "who has the key?", "Ana has a key to the old house. a car is red"
    given = made.tokenizer(question, passage, return_tensors="pt", return_offsets_mapping=True)
    offsets = given.pop("offset_mapping")[0].tolist()
    with torch.no_grad():
        output = made.model(**given)
    places = [place for place, number in enumerate(given.sequence_ids(0)) if number == 1]
    start, end = output.start_logits[0], output.end_logits[0]
    pairs = [(float(start[i] + end[j]), i, j) for i in places for j in places if i <= j < i + 30]
    _, first, last = max(pairs)
    answer = run((question, passage))
    assert answer.text.strip() == passage[offsets[first][0] : offsets[last][1]].strip()
    seen = answer.look()
    weights = made_attention(made, question, passage)
    assert_close(seen[seen.names[-1]].weights()[0], weights, atol=1e-5, rtol=1e-4)
    long = run((question, "it is red and new. " * 12 + passage))  # several windows
    assert long.text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("flag", "pooled"),
    [
        ("pooling_mode_mean_tokens", lambda h: h.mean(0)),
        ("pooling_mode_cls_token", lambda h: h[0]),
        ("pooling_mode_max_tokens", lambda h: h.amax(0)),
        ("pooling_mode_mean_sqrt_len_tokens", lambda h: h.sum(0) / len(h) ** 0.5),
    ],
)
def test_a_vector_is_pooled_as_the_folder_says(both: Make, kind: str, flag: str, pooled: Any) -> None:
    made = both(kind, "Model")
    write_modules(made.home / "theirs", {flag: True})
    run = made.run()
    assert (run.task.name, run.settings.name) == ("embed", "encoder")
    answers = run(["the red house", "a car is new and old"])
    for text, answer in zip(["the red house", "a car is new and old"], answers, strict=True):
        assert_close(answer.vector, pooled(made.output(text).last_hidden_state[0]), **NEAR)
        assert len(answer.to_dict()["vector"]) == 24
        assert answer.to_dict()["score"] is None


def write_modules(folder: Path, pooling: dict[str, Any], *more: str, **files: dict[str, Any]) -> None:
    """What sentence-transformers writes beside a model."""
    kinds = {"": "Transformer", "1_Pooling": "Pooling"} | {f"{n}_{kind}": kind for n, kind in enumerate(more, 2)}
    listed = [
        {"idx": n, "path": path, "type": f"sentence_transformers.models.{kinds[path]}"} for n, path in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(listed))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


def test_long_texts_are_cut_where_the_folder_says_and_that_is_said(both: Make) -> None:
    made = both("bert", "Model")
    mean = {"pooling_mode_mean_tokens": True}
    write_modules(made.home / "theirs", mean, "Normalize", sentence_bert_config={"max_seq_length": 8})
    run = made.run()
    answer = run("a car is red and new and old and red")
    h = made.model(
        **made.tokenizer("a car is red and new and old and red", truncation=True, max_length=8, return_tensors="pt")
    )
    wanted = torch.nn.functional.normalize(h.last_hidden_state[0].mean(0), dim=0)
    assert_close(answer.vector, wanted.detach(), **NEAR)
    assert answer.note.startswith("the first 8 of ")
    assert answer.look().labels.axes["text"].tokens[0] == "[CLS]"  # type: ignore[union-attr]


def test_a_prompt_stands_before_every_text(both: Make) -> None:
    made = both("bert", "Model")
    named = {"prompts": {"query": "who has: "}, "default_prompt_name": "query"}
    write_modules(made.home / "theirs", {"pooling_mode_cls_token": True}, config_sentence_transformers=named)
    wanted = made.output("who has: the key").last_hidden_state[0, 0]
    assert_close(made.run()("the key").vector, wanted, **NEAR)


def test_candidates_are_ranked_by_their_cosine_and_pairs_measured(both: Make, tmp_path: Path) -> None:
    run = both("bert", "ForMaskedLM").run(task="embed")  # the head is left out
    texts = list(dict.fromkeys(TEXTS))
    answer = run(texts[0], candidates=tuple(texts))
    assert answer.text == texts[0]
    assert_close(answer.score, 1.0, **NEAR)
    assert [score for _, score in answer.ranked] == sorted((score for _, score in answer.ranked), reverse=True)
    vectors = torch.nn.functional.normalize(torch.stack([each.vector for each in run(texts)]), dim=1)
    cosines = (vectors @ vectors[0]).tolist()
    rows = "".join(f"{texts[0]}\t{text}\t{5 * cosine}\n" for text, cosine in zip(texts, cosines, strict=True))
    (tmp_path / "pairs.tsv").write_text("sentence1\tsentence2\tscore\n" + rows)
    metrics = run.measure(str(tmp_path / "pairs.tsv"))
    assert_close(metrics, {"spearman": 100.0, "pearson": 100.0}, **NEAR)
    (tmp_path / "pairs.tsv").write_text(f"sentence1\tsentence2\tscore\n{rows}a\tb\tnear\n")
    with pytest.raises(ValueError, match="the similarity is no number: 'near'"):
        run.measure(str(tmp_path / "pairs.tsv"))


@pytest.mark.parametrize(
    ("pooling", "more", "message"),
    [
        ({"pooling_mode_lasttoken": True}, (), "must be one of cls, mean, max, mean_sqrt_len: got lasttoken"),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, (), "got mean, max"),
        ({"pooling_mode_mean_tokens": True, "include_prompt": False}, (), "include_prompt must be true"),
        ({"pooling_mode_mean_tokens": True}, ("Dense",), "modules.json has a Dense after the transformer"),
    ],
)
def test_what_cannot_be_pooled_is_refused_by_name(
    both: Make, pooling: dict[str, Any], more: tuple[str, ...], message: str
) -> None:
    made = both("bert", "Model")
    write_modules(made.home / "theirs", pooling, *more)
    with pytest.raises(ValueError, match=message):
        made.run()
    assert not (made.home / "run").exists()


def test_embed_is_not_trained_here() -> None:
    with pytest.raises(
        ValueError, match="embed is not trained here: it takes models of elsewhere, mirada import PATH --task embed"
    ):
        mirada.train("embed", [("a", "b", "1")])
