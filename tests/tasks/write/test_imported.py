"""write with checkpoints of others: beside transformers in greedy and penalized texts, ends, chats, streams and figures."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, pre_tokenizers, trainers
from torch.testing import assert_close

import mirada
from mirada.decoding.greedy import Greedy, Sample
from mirada.runs.run import Run
from mirada.tasks.write.continuation import GrowingText, ends_of, usual_ask

transformers = pytest.importorskip("transformers")

DATA = Path(os.environ.get("MIRADA_DATA", Path(__file__).parents[4] / "shared" / "data"))
STORIES = DATA / "stories260K" / "stories260K.bin"

TEXT = "the red house is a house. Ana has the key of the house, a red key. the key is é ü ñ 日本."
END = "<|end|>"
CHAT = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}{% if add_generation_prompt %} <|start|>{% endif %}"
KINDS: Mapping[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2", "LMHeadModel", {"n_embd": 24, "n_layer": 2, "n_head": 4, "n_positions": 48}),
    "llama": (
        "Llama", "ForCausalLM",
        {
            "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "intermediate_size": 31, "max_position_embeddings": 48,
        },
    ),
}  # fmt: skip


def write_folder(folder: Path, kind: str, generation: Mapping[str, Any]) -> tuple[Any, Any]:
    """A tiny checkpoint with a byte-level tokenizer, and what transformers makes of it."""
    engine = Engine(models.BPE())
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    letters = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=290, special_tokens=[END, "<|start|>"], initial_alphabet=letters)
    engine.train_from_iterator([TEXT] * 3, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=engine, eos_token=END, bos_token=END)
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)
    stem, head, sizes = KINDS[kind]
    config = getattr(transformers, f"{stem}Config")(
        vocab_size=len(tokenizer) + 3, bos_token_id=0, eos_token_id=0, pad_token_id=None, **sizes
    )
    torch.manual_seed(7)
    model = getattr(transformers, f"{stem}{head}")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.25 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    described = {"bos_token_id": 0, "eos_token_id": 0} | dict(generation)
    (folder / "generation_config.json").write_text(json.dumps(described))
    return model, tokenizer


@pytest.fixture(scope="module", params=list(KINDS))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Any, Any]:
    """A run, the model and the tokenizer of theirs."""
    place = tmp_path_factory.mktemp(request.param)
    theirs = write_folder(place / "theirs", request.param, {"max_new_tokens": 11})
    return mirada.import_model(place / "theirs", out=place / "run"), *theirs


def their_tokens(model: Any, tokenizer: Any, text: str, **how: Any) -> list[int]:
    """What transformers writes after a text, greedily unless asked otherwise."""
    given = tokenizer(text, return_tensors="pt")
    more = list(range(len(tokenizer), model.config.vocab_size))  # rows without a token: we never write them
    how = {
        "do_sample": False,
        "max_new_tokens": 11,
        "pad_token_id": 0,
        "eos_token_id": 0,
        "suppress_tokens": more,
    } | how
    return model.generate(**given, **how)[0, given["input_ids"].shape[1] :].tolist()  # type: ignore[no-any-return]


def words_of(run: Run, ids: list[int]) -> tuple[str, ...]:
    return tuple(map(run.known.tokenizer.token, ids))


def test_greedy_texts_are_those_of_transformers_and_the_folder_says_how_long(pair: tuple[Run, Any, Any]) -> None:
    run, model, tokenizer = pair
    for text in ("the red house", "Ana", " a key", "ñ 日本"):
        wanted = their_tokens(model, tokenizer, text)
        answer = run(text)
        assert answer.written == words_of(run, [id for id in wanted if id])
        assert "".join(run.stream(text)).rstrip("\ufffd") == answer.text
        whole = tokenizer.decode(tokenizer(text)["input_ids"] + wanted, skip_special_tokens=True)
        assert answer.text == whole.rstrip("\ufffd")
        assert answer.look().names == ["decoder.layers.0.self", "decoder.layers.1.self"]


def test_options_stand_above_the_settings_of_the_folder(pair: tuple[Run, Any, Any]) -> None:
    run, model, tokenizer = pair
    wanted = their_tokens(model, tokenizer, "the key", max_new_tokens=17, repetition_penalty=1.6)
    assert run("the key", tokens=17, repetition_penalty=1.6).written == words_of(run, [id for id in wanted if id])
    assert len(run("the key", tokens=5, beam=3).written) <= 5
    drawn = [run("the key", temperature=1.5, seed=seed).text for seed in range(3)]
    assert len(set(drawn)) == 3
    with pytest.raises(ValueError, match="a beam has no repetition penalty"):
        run("the key", beam=2, repetition_penalty=1.2)
    with pytest.raises(ValueError, match="a system prompt is for a chat"):
        run("the key", system="Be brief.")


def test_any_of_several_ends_ends_a_text(pair: tuple[Run, Any, Any], tmp_path: Path) -> None:
    run, model, tokenizer = pair
    free = their_tokens(model, tokenizer, "the red house", eos_token_id=None)
    ends = [0, free[4]]
    kind = model.config.model_type
    write_folder(tmp_path / "theirs", kind, {"eos_token_id": ends})
    ending = mirada.import_model(tmp_path / "theirs", out=tmp_path / "run")
    assert ending.settings.origin["facts"]["end_tokens"] == ends
    answer = ending("the red house")
    written = free[: min(free.index(end) for end in ends if end in free)]
    assert answer.written == words_of(run, written)
    assert "".join(ending.stream("the red house")).rstrip("\ufffd") == answer.text
    if not written:
        assert answer.note == "the model ended the text at once"


def test_a_chat_is_rendered_by_the_template_and_answered_alone(pair: tuple[Run, Any, Any]) -> None:
    pytest.importorskip("jinja2")
    run, model, tokenizer = pair
    messages = [{"role": "system", "content": "Be red."}, {"role": "user", "content": "Who has the key?"}]
    rendered = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    wanted = [id for id in their_tokens(model, tokenizer, rendered) if id]
    answer = run("Who has the key?", chat=True, system="Be red.")
    assert answer.input == "Who has the key?"
    assert answer.written == words_of(run, wanted)
    assert answer.text == tokenizer.decode(wanted, skip_special_tokens=True).rstrip("\ufffd")
    assert "".join(run.stream("Who has the key?", chat=True, system="Be red.")).rstrip("\ufffd") == answer.text


def test_perplexity_and_bits_are_those_of_the_text_alone(pair: tuple[Run, Any, Any], tmp_path: Path) -> None:
    run, model, tokenizer = pair
    path = tmp_path / "text.txt"
    path.write_text(TEXT, encoding="utf-8")
    found = run.measure(str(path))
    ids = torch.tensor([[0, *tokenizer(TEXT)["input_ids"]]])
    total, count = 0.0, 0
    with torch.no_grad():
        for first in range(0, ids.shape[1] - 1, 48):
            window = ids[:, first : first + 49]
            logits = model(window[:, :-1]).logits
            total += float(torch.nn.functional.cross_entropy(logits[0], window[0, 1:], reduction="sum"))
            count += window.shape[1] - 1
    assert_close(found["loss"], total / count, atol=1e-4, rtol=1e-4)
    assert_close(found["perplexity"], math.exp(total / count), atol=0.0, rtol=1e-3)
    assert_close(found["bits_per_character"], total / len(TEXT) / math.log(2), atol=1e-4, rtol=1e-4)


def test_a_text_beyond_what_the_model_reads_is_continued_from_its_end_and_that_is_said(
    pair: tuple[Run, Any, Any],
) -> None:
    run, *_ = pair
    assert run("the key", tokens=3).note == ""
    answer = run("the red house is a house. " * 8, tokens=3)
    assert len(answer.written) == 3
    assert answer.note.startswith("the text is longer than the 48 tokens that the model reads at once")


def test_draws_are_those_that_the_folder_asks_for(tmp_path: Path) -> None:
    how = {"do_sample": True, "temperature": 0.6, "top_p": 0.95, "repetition_penalty": 1.1, "eos_token_id": [0, 5]}
    write_folder(tmp_path / "theirs", "llama", how)
    run = mirada.import_model(tmp_path / "theirs", out=tmp_path / "run")
    ask = usual_ask(run)
    assert ask.search() == Sample(temperature=0.6, top_k=50, top_p=0.95)
    assert ask.repetition_penalty == 1.1
    assert run.asked({"temperature": 0}).search() == Greedy()  # type: ignore[attr-defined]
    assert run.asked({"temperature": 0.0, "tokens": 4}).repetition_penalty == 1.1  # type: ignore[attr-defined]
    assert run.asked({"beam": 2}).search().size == 2  # type: ignore[attr-defined]
    assert run.asked({"top_k": 3}).search() == Sample(temperature=0.6, top_k=3, top_p=0.95)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"min_p": 0.1},
            "generation_config.json asks for min_p=0.1, which is not represented: take it out of the file",
        ),
        ({"no_repeat_ngram_size": 3}, "asks for no_repeat_ngram_size=3"),
        ({"num_beams": 4}, "asks for num_beams=4"),
        ({"temperature": "hot"}, "generation_config.json has temperature=hot, which is no such setting"),
        ({"top_p": 2.0}, "has top_p=2.0"),
        ({"eos_token_id": "x"}, "must name tokens by number"),
    ],
    ids=str,
)
def test_settings_that_are_not_represented_are_refused_by_name(
    tmp_path: Path, how: dict[str, Any], message: str
) -> None:
    write_folder(tmp_path / "theirs", "gpt2", how)
    with pytest.raises(ValueError, match=message):
        mirada.import_model(tmp_path / "theirs", out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_without_a_tokenizer_the_texts_are_numbers(tmp_path: Path) -> None:
    model, _ = write_folder(tmp_path / "theirs", "llama", {"max_new_tokens": 6, "eos_token_id": None})
    for path in (tmp_path / "theirs").glob("tokenizer*"):
        path.unlink()
    run = mirada.import_model(tmp_path / "theirs", out=tmp_path / "run")
    wanted = model.generate(torch.tensor([[5, 6, 7]]), do_sample=False, max_new_tokens=6, pad_token_id=0)
    assert run("5 6 7").text.split() == [str(id) for id in wanted[0].tolist()]


@pytest.mark.skipif(not STORIES.exists(), reason="the data for measuring is not here")
def test_the_stories_are_told_as_they_are_known(tmp_path: Path) -> None:
    run = mirada.import_model(STORIES, out=tmp_path / "run")
    answer = run("Once upon a time", tokens=60)
    known = "Once upon a time, there was a little girl named Lily. She loved to play outside in the park."
    assert answer.text.startswith(known)
    assert answer.note == ""
    assert answer.read[:4] == ("<s>", "Once", "upon", "a")


def test_a_training_that_starts_from_a_checkpoint_keeps_its_tokenizer_and_its_ends(
    pair: tuple[Run, Any, Any], tmp_path: Path
) -> None:
    run, *_ = pair
    path = tmp_path / "text.txt"
    path.write_text((TEXT + "\n") * 30, encoding="utf-8")
    how = {"steps": 30, "lr": 3e-3, "batch_tokens": 96, "threads": 1, "validate": 30}
    tuned = mirada.train("write", str(path), out=tmp_path / "tuned", start=str(run.folder), **how)
    assert len(tuned.known.tokenizer) == len(run.known.tokenizer)
    assert ends_of(tuned) == (0,)
    assert tuned.measure(str(path))["loss"] < run.measure(str(path))["loss"] - 1


def test_a_character_is_shown_when_all_its_bytes_are_there() -> None:
    shown = GrowingText(lambda ids: bytes(ids).decode(errors="replace"), [])
    content = ("日本 é " * 100).encode()
    pieces = [shown.add(byte) for byte in content]
    assert "".join(pieces) == content.decode()
    assert not any("\ufffd" in piece for piece in pieces)
