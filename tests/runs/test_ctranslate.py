"""Models in CTranslate2: its scores and its searches say what ours do."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn
from torch.testing import assert_close

import mirada
from mirada.data.text.pretrained import NumberTokenizer, SpecialTokens
from mirada.decoding import Beam, Greedy
from mirada.models.encoder import TextEncoder, TextEncoderConfig
from mirada.models.gpt import GPT, GPTConfig
from mirada.models.transformer import Transformer, TransformerConfig
from mirada.runs.ctranslate import to_ctranslate2
from mirada.runs.exporting import export_run
from tests.hub.tiny import write_folder
from tests.models.stirring import stirred

ctranslate2 = pytest.importorskip("ctranslate2", reason="the extra ctranslate2 is not installed")

VOCAB, START, END = 13, 1, 2
SIZES = {"vocab": VOCAB, "width": 16, "heads": 4, "hidden": 24, "depth": 2, "length": 32, "dropout": 0.0}
PAIRS = SIZES | {"source_vocab": VOCAB}
TRANSFORMERS: dict[str, dict[str, Any]] = {
    "as trained here": {"decoder_depth": 3},
    "like marian": {
        "order": "post", "position": "sinusoidal:layout=half", "activation": "silu", "tied": "all", "output_bias": True,
    },
    "like bart": {
        "order": "post", "position": "learned:offset=2", "activation": "gelu", "tied": "all", "scaled_words": False,
        "normed_words": True,
    },
    "other parts": {
        "position": "learned", "projection": "multihead:bias=qv", "norm": "rms", "activation": "gated:gelu",
        "source_vocab": 11, "tied": "no",
    },
    "raw scores without positions": {"score": "dot:1.0", "position": "none", "norm": "layer:bias=no"},
}  # fmt: skip
GPTS: dict[str, dict[str, Any]] = {
    "like gpt2": {},
    "like opt": {"order": "post", "position": "learned:offset=2", "activation": "relu", "embed": 8},
    "like llama": {
        "position": "rotary:base=500", "norm": "rms:1e-5", "activation": "gated", "projection": "grouped:2,bias=no",
        "tied": False,
    },
    "like gpt-neox": {"position": "rotary:layout=interleaved,part=0.5"},
}  # fmt: skip
SOURCES = ([3, 4, 5, 6, END], [7, 3, END])


def words(tokens: list[int]) -> list[str]:
    """Tokens as the tokenizer of numbers spells them."""
    return [str(token) for token in tokens]


def as_run(model: nn.Module, facts: Mapping[str, Any] | None = None, **special: int) -> Any:
    """As much of a run as the export reads."""
    known = SpecialTokens(**{"start": START, "end": END, "special": (0, START, END), **special})  # type: ignore[arg-type]
    settings = SimpleNamespace(origin={}, facts=facts or {}, files={})
    return SimpleNamespace(
        model=model, known=SimpleNamespace(tokenizer=NumberTokenizer(VOCAB, known)), settings=settings, folder=Path("none")
    )  # fmt: skip


def logprobs(model: Any, source: list[int], target: list[int]) -> torch.Tensor:
    """Of every token of a target with its end, by our model."""
    scores = model(torch.tensor([source]), None, torch.tensor([[START, *target[:-1]]])).log_softmax(-1)[0]
    return scores[torch.arange(len(target)), torch.tensor(target)]


@pytest.mark.parametrize("name", TRANSFORMERS)
@torch.no_grad()
def test_a_translator_scores_and_searches_as_our_transformer(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = stirred(Transformer(TransformerConfig(**(PAIRS | TRANSFORMERS[name]))), torch.float32).eval()
    lines = to_ctranslate2(as_run(model), tmp_path / "out")
    assert lines[1] == "a source is its tokens as the model was trained with them: ... 2"
    theirs = ctranslate2.Translator(str(tmp_path / "out"))
    target = [7, 8, 9, END]
    for source in SOURCES:
        (scored,) = theirs.score_batch([words(source)], [words(target[:-1])])
        assert_close(torch.tensor(scored.log_probs), logprobs(model, source, target), atol=1e-4, rtol=1e-4)
        for size, search in ((1, Greedy()), (3, Beam(3, stop="full"))):
            state = model.start(model.encode(torch.tensor([source])))
            ((best, *_),) = search(model, state, torch.tensor([START]), (END,), [10])
            (found,) = theirs.translate_batch(
                [words(source)], beam_size=size, max_decoding_length=10, min_decoding_length=0, return_scores=True
            )
            assert found.hypotheses[0] == words([token for token in best.tokens if token != END])
            assert_close(found.scores[0], best.score, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("name", GPTS)
@torch.no_grad()
def test_a_generator_scores_and_searches_as_our_gpt(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = stirred(GPT(GPTConfig(**(SIZES | GPTS[name]))), torch.float32).eval()
    to_ctranslate2(as_run(model), tmp_path / "out")
    theirs, prompt = ctranslate2.Generator(str(tmp_path / "out")), [START, 5, 9, 4]
    (scored,) = theirs.score_batch([words(prompt)])
    wanted = model(torch.tensor([prompt])).log_softmax(-1)[0, torch.arange(3), torch.tensor(prompt[1:])]
    assert_close(torch.tensor(scored.log_probs), wanted, atol=1e-4, rtol=1e-4)
    for size, search in ((1, Greedy()), (3, Beam(3, stop="full"))):
        _, state = model.step(torch.tensor([prompt[:-1]]), model.start(1))
        ((best, *_),) = search(model, state, torch.tensor(prompt[-1:]), (END,), [10])
        (found,) = theirs.generate_batch(
            [words(prompt)], beam_size=size, max_length=10, min_length=0, include_prompt_in_result=False,
            return_scores=True,
        )  # fmt: skip
        assert found.sequences[0] == words([token for token in best.tokens if token != END])
        assert_close(found.scores[0], best.score, atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("name", ["marian", "bart", "m2m_100", "gpt2", "opt"])
@torch.no_grad()
def test_an_imported_checkpoint_goes_on_to_ctranslate2(name: str, tmp_path: Path) -> None:
    run = mirada.import_model(write_folder(tmp_path / "theirs", name), tmp_path / "run")
    export_run(run, "ctranslate2", tmp_path / "out")
    assert (tmp_path / "out" / "tokenizer.json").read_bytes() == (tmp_path / "theirs" / "tokenizer.json").read_bytes()
    described = json.loads((tmp_path / "out" / "config.json").read_text())
    assert (described["bos_token"], described["eos_token"], described["unk_token"]) == ("<s>", "</s>", "<unk>")
    spelled = run.known.tokenizer.spellings()
    read, written = [2, 9, 12, 30, 3], [20, 21, 3]
    if isinstance(run.model, Transformer):
        assert described["decoder_start_token"] == "<s>"
        theirs = ctranslate2.Translator(str(tmp_path / "out"))
        (scored,) = theirs.score_batch([[spelled[id] for id in read]], [[spelled[id] for id in written[:-1]]])
        logits = run.model(torch.tensor([read]), None, torch.tensor([[2, *written[:-1]]]))
        wanted = logits.log_softmax(-1)[0, torch.arange(3), torch.tensor(written)]
    else:
        (scored,) = ctranslate2.Generator(str(tmp_path / "out")).score_batch([[spelled[id] for id in read]])
        wanted = run.model(torch.tensor([read])).log_softmax(-1)[0, torch.arange(4), torch.tensor(read[1:])]
    assert_close(torch.tensor(scored.log_probs), wanted, atol=1e-4, rtol=1e-4)


def test_what_has_to_be_given_besides_is_told(tmp_path: Path) -> None:
    model = Transformer(TransformerConfig(**PAIRS)).eval()
    facts = {"start_token": None, "writing": {"end_tokens": [END, 7]}}
    _, *notes = to_ctranslate2(as_run(model, facts), tmp_path / "one")
    assert notes == [
        "a text may also end with others: give end_token=['2', '7']",
        "a source is its tokens as the model was trained with them: ...",
        "a target begins with its language: give that token as target_prefix",
    ]
    assert json.loads((tmp_path / "one" / "config.json").read_text())["decoder_start_token"] is None
    facts = {"start_token": 0, "writing": {"first": 9}}
    assert to_ctranslate2(as_run(model, facts), tmp_path / "two")[-1] == (
        "a target goes on with '9': give that token as target_prefix"
    )


REFUSED: dict[str, tuple[type[Any], dict[str, Any], str]] = {
    "window": (GPT, {"where": "window:3"}, "where is 'window:3'"),
    "neighborhoods in turn": (GPT, {"where": "complete / window:3"}, "where is 'complete / window:3'"),
    "alibi": (GPT, {"position": "alibi"}, "the position is 'alibi'"),
    "positions in turn": (GPT, {"position": "rotary / none"}, "where and position by layers is"),
    "slowed rotations": (GPT, {"position": "rotary:factor=2"}, "the position is 'rotary:factor=2'"),
    "normed queries": (GPT, {"projection": "multihead:qk_norm=1e-6"}, "the projection is 'multihead:qk_norm=1e-6'"),
    "sparsemax": (GPT, {"normalizer": "sparsemax"}, "the normalizer is 'sparsemax'"),
    "trained scale": (GPT, {"score": "dot:learned"}, "the score is 'dot:learned'"),
    "batch norm": (GPT, {"norm": "batch"}, "the norm is 'batch'"),
    "rotary transformer": (Transformer, {"position": "rotary"}, "the position is 'rotary'"),
    "t5": (Transformer, {"position": "t5"}, "the position is 't5'"),
    "scaled output": (Transformer, {"output_scale": 0.5}, "output_scale is '0.5'"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_part_that_it_has_not_is_named(name: str, tmp_path: Path) -> None:
    kind, parts, message = REFUSED[name]
    model = kind(kind.Config(**((PAIRS if kind is Transformer else SIZES) | parts)))
    with pytest.raises(ValueError, match="ctranslate2 cannot express this model: ") as error:
        to_ctranslate2(as_run(model), tmp_path / "out")
    assert message in str(error.value)
    assert not (tmp_path / "out").exists()


def test_other_models_tokens_that_are_not_there_and_a_missing_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = TextEncoder(TextEncoderConfig(**SIZES))
    with pytest.raises(ValueError, match="cannot express a TextEncoder; of these it can: GPT, Transformer"):
        to_ctranslate2(as_run(encoder), tmp_path / "out")
    model = GPT(GPTConfig(**SIZES))
    with pytest.raises(ValueError, match="needs the token that ends a text"):
        to_ctranslate2(as_run(model, end=-1), tmp_path / "out")
    with pytest.raises(ValueError, match="names the special token 40, and its model has 13 tokens"):
        to_ctranslate2(as_run(model, {"end_tokens": [40]}), tmp_path / "out")
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    with pytest.raises(ValueError, match=r"pip install 'mirada\[ctranslate2\]'"):
        to_ctranslate2(as_run(model), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
