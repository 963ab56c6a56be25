"""Translations with models from elsewhere: what they are given, how they begin, and that they write what they write elsewhere."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")

from tokenizers import AddedToken, decoders, models, pre_tokenizers, processors  # noqa: E402
from tokenizers import Tokenizer as Engine  # noqa: E402

from mirada import Seen, engine, import_model, load  # noqa: E402
from mirada.runs.run import Run  # noqa: E402
from mirada.tasks.translate.pairs import Sides  # noqa: E402
from tests.cli.conftest import Command  # noqa: E402
from tests.cli.conftest import mirada as command  # noqa: E402, F401 (a fixture)

WORDS = ["the", "red", "house", "is", "big", "car", "a", "small", "dog", "runs", "la", "casa", "roja", "es", "grande"]
SIZES: dict[str, Any] = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32, "decoder_ffn_dim": 32, "max_position_embeddings": 40,
}  # fmt: skip
T5: dict[str, Any] = {
    "d_model": 16,
    "d_kv": 4,
    "d_ff": 32,
    "num_layers": 2,
    "num_heads": 2,
    "feed_forward_proj": "gated-gelu",
}
LANGUAGES = ["eng_Latn", "spa_Latn", "deu_Latn"]
TEXT = "the red house is big"


def _tokenizer(special: list[str], template: str) -> tuple[Any, dict[str, int]]:
    """A tokenizer of words with these special tokens, which stand around a text as the template says."""
    vocab = {token: id for id, token in enumerate([*special, *(f"▁{word}" for word in WORDS)])}
    made = Engine(models.WordLevel(vocab, unk_token="<unk>"))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    made.post_processor = processors.TemplateProcessing(
        single=template, special_tokens=[(t, vocab[t]) for t in special]
    )
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    more = {"extra_special_tokens": LANGUAGES} if LANGUAGES[0] in special else {}
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, **names, **more), vocab


def _saved(folder: Path, model: Any, tokenizer: Any, writing: dict[str, Any], **said: Any) -> Any:
    """A folder of a model whose weights were moved away from their start."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name or parameter.requires_grad:
                parameter.add_(0.4 * torch.randn_like(parameter))
    model.eval().generation_config = transformers.GenerationConfig(**writing)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | said))
    return model


def _texts(model: Any, tokenizer: Any, **generate: Any) -> tuple[list[int], str]:
    """The tokens and the text that theirs write."""
    read = tokenizer(TEXT, return_tensors="pt")
    with torch.no_grad():
        (written,) = model.generate(read["input_ids"], attention_mask=read["attention_mask"], **generate).tolist()
    return written[1:], tokenizer.decode(written, skip_special_tokens=True)


@pytest.fixture(scope="module")
def summarizer(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Any, Any]:
    """A BART with settings as those of summaries."""
    torch.manual_seed(3)
    tokenizer, vocab = _tokenizer(["<s>", "<pad>", "</s>", "<unk>"], "<s> $A </s>")
    model = transformers.BartForConditionalGeneration(transformers.BartConfig(vocab_size=len(vocab), **SIZES))
    writing = {
        "num_beams": 3, "max_length": 12, "min_length": 5, "forced_bos_token_id": 0, "forced_eos_token_id": 2,
        "no_repeat_ngram_size": 2, "early_stopping": True, "length_penalty": 2.0, "decoder_start_token_id": 2,
        "eos_token_id": 2, "pad_token_id": 1, "bos_token_id": 0,
    }  # fmt: skip
    folder = tmp_path_factory.mktemp("bart")
    model = _saved(folder / "theirs", model, tokenizer, writing)
    return import_model(folder / "theirs", out=folder / "run"), model, tokenizer


@pytest.fixture(scope="module")
def polyglot(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Any, Any]:
    """An M2M100 with NLLB's tokenizer: three languages."""
    torch.manual_seed(4)
    tokenizer, vocab = _tokenizer(["<s>", "<pad>", "</s>", "<unk>", *LANGUAGES], "eng_Latn $A </s>")
    model = transformers.M2M100ForConditionalGeneration(transformers.M2M100Config(vocab_size=len(vocab), **SIZES))
    writing = {"max_length": 10, "num_beams": 2, "decoder_start_token_id": 2, "eos_token_id": 2, "pad_token_id": 1}
    folder = tmp_path_factory.mktemp("nllb")
    said = {"tokenizer_class": "NllbTokenizer", "src_lang": "eng_Latn"}
    model = _saved(folder / "theirs", model, tokenizer, writing, **said)
    return import_model(folder / "theirs", out=folder / "run"), model, tokenizer


@pytest.fixture
def asked(request: pytest.FixtureRequest) -> Command:
    return request.getfixturevalue("command")  # type: ignore[no-any-return]


def _without_end(tokens: list[int], end: int) -> list[int]:
    return tokens[:-1] if tokens[-1] == end else tokens


def test_the_rows_of_a_picture_are_what_was_written(polyglot: tuple[Run, Any, Any]) -> None:
    answer = polyglot[0](TEXT, target="spa_Latn")
    assert "rows: what was written; columns: what was read" in answer.look().text()


def test_a_summarizer_writes_what_it_wrote_elsewhere(summarizer: tuple[Run, Any, Any]) -> None:
    run, model, tokenizer = summarizer
    tokens, text = _texts(model, tokenizer)
    answer = run(TEXT)
    assert (list(answer.tokens), answer.text) == (_without_end(tokens, 2), text)
    assert (run.ask.beam, run.ask.length_penalty, run.ask.no_repeat, run.ask.stop) == (3, 2.0, 2, "full")
    assert answer.read == ("<s>", "the", "red", "house", "is", "big", "</s>")
    greedy, _ = _texts(model, tokenizer, num_beams=1)
    assert list(run(TEXT, beam=1).tokens) == _without_end(greedy, 2)
    assert run(TEXT, temperature=0.5, seed=1).tokens  # the usual beams give way
    assert run([TEXT, "a dog"])[0].text == text  # padding changes nothing


def test_what_was_looked_at_has_the_names_of_all_tokens(summarizer: tuple[Run, Any, Any]) -> None:
    run, _, _ = summarizer
    answer = run(TEXT)
    seen = answer.look()
    rows, columns = seen.labels.rows_and_columns("decoder.layers.1.cross", len(answer.tokens) + 1, 7)
    assert columns.tokens == answer.read
    assert rows.tokens[0] == "</s>"  # a decoder of BART begins with it
    weights = seen["decoder.layers.1.cross"].weights()[0].mean(0)
    assert answer.weights is not None
    torch.testing.assert_close(weights[: len(answer.tokens)], answer.weights, atol=1e-5, rtol=0)


def test_languages_are_tokens_on_both_sides(polyglot: tuple[Run, Any, Any]) -> None:
    run, model, tokenizer = polyglot
    code = tokenizer.convert_tokens_to_ids("spa_Latn")
    tokens, text = _texts(model, tokenizer, forced_bos_token_id=code)
    answer = run(TEXT, target="spa_Latn")
    assert (list(answer.tokens), answer.text) == (_without_end(tokens, 2), text)
    assert (answer.read[0], answer.written[0]) == ("eng_Latn", "spa_Latn")
    assert run(TEXT, source="deu_Latn", target="spa_Latn").read[0] == "deu_Latn"
    assert engine.fast(run.model).reason is None


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        ({}, "say the language of the answer: --target .target=., one of deu_Latn, eng_Latn, spa_Latn"),
        ({"target": "sp_Latn"}, "unknown target 'sp_Latn'; .* Did you mean 'spa_Latn'?"),
        ({"target": "spa_Latn", "source": "english"}, "unknown source 'english'"),
    ],
)
def test_languages_that_are_not_known_are_refused(
    polyglot: tuple[Run, Any, Any], ask: dict[str, str], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        polyglot[0](TEXT, **ask)


def test_a_model_without_languages_says_so(summarizer: tuple[Run, Any, Any]) -> None:
    with pytest.raises(ValueError, match="target=es: this model has no codes of languages"):
        summarizer[0](TEXT, target="es")


def test_the_commands_take_languages(polyglot: tuple[Run, Any, Any], asked: Command, tmp_path: Path) -> None:
    run, _, _ = polyglot
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("the red house\tla casa roja\nthe car is red\tla casa es grande\n")
    folder = str(run.folder)
    written = asked("run", folder, TEXT, "--target", "spa_Latn")
    assert written.out.strip() == run(TEXT, target="spa_Latn").text
    assert "bleu" in asked("eval", folder, "--data", str(pairs), "--target", "spa_Latn", "--json").out
    record = tmp_path / "seen.attn"
    assert asked("look", folder, TEXT, "--target", "spa_Latn", "-o", str(record)).code == 0
    rows, columns = Seen.load(record).labels.rows_and_columns("decoder.layers.0.cross", 10, 7)
    assert (rows.tokens[1], columns.tokens[0]) == ("spa_Latn", "eng_Latn")


def test_words_before_every_input_and_what_is_not_supported(tmp_path: Path) -> None:
    tokenizer, _ = _tokenizer(["<pad>", "</s>", "<unk>"], "$A </s>")
    config = transformers.T5Config(vocab_size=40, **T5, decoder_start_token_id=0, tie_word_embeddings=False)
    writing = {"max_length": 8, "decoder_start_token_id": 0, "eos_token_id": 1, "pad_token_id": 0}
    model = _saved(tmp_path / "theirs", transformers.T5ForConditionalGeneration(config), tokenizer, writing)
    run = import_model(tmp_path / "theirs", out=tmp_path / "run")
    tokens, text = _texts(model, tokenizer)
    answer = run("house is big", prefix="the red ")
    assert (list(answer.tokens), answer.text) == (_without_end(tokens, 1), text)
    assert answer.read == ("the", "red", "house", "is", "big", "</s>")
    assert engine.fast(run.model).reason is None
    path = tmp_path / "theirs" / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"num_beams": 2, "diversity_penalty": 0.5}))
    from mirada.runs.importing import import_folder

    said: list[str] = []
    import_folder(tmp_path / "theirs", tmp_path / "again", print_progress=said.append)
    assert said == ["not supported, so answers are written without it: diversity_penalty=0.5"]


def test_a_model_from_elsewhere_learns_from_pairs(
    polyglot: tuple[Run, Any, Any], asked: Command, tmp_path: Path
) -> None:
    run, _, tokenizer = polyglot
    rows = [
        (f"the {a} {b}", f"la {c} roja")
        for a in ("red", "big", "small")
        for b, c in (("house", "casa"), ("car", "grande"))
    ]
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    out = tmp_path / "tuned"
    done = asked(
        "train", "translate", "--from", str(run.folder), "--data", str(pairs), "--out", str(out),
        "target=spa_Latn", "steps=60", "validate=60", "lr=1e-2", "warmup=5", "dropout=0", "bad=skip", "threads=1",
    )  # fmt: skip
    assert done.code == 0, done.err
    tuned = load(out)
    assert tuned.known.usual == Sides(target="spa_Latn")
    assert tuned("the red house", beam=1).text.startswith("la casa")
    batch = tuned.known.targets(["la casa"])[0]
    assert [tokenizer.convert_ids_to_tokens(id) for id in batch] == ["spa_Latn", "▁la", "▁casa", "</s>"]
