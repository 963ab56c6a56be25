"""A tiny Whisper of transformers with random weights, and the run that its checkpoint becomes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from mirada.data.text.tokenize import Tokenizer, Vocabulary
from mirada.hub import whisper
from mirada.runs.run import Run
from mirada.runs.settings import Settings
from mirada.runs.sources import Source
from mirada.tasks.transcribe.task import Transcribe, TranscribeOptions
from mirada.tasks.transcribe.whisper import WhisperVocabulary
from mirada.training.recipe import Recipe

LETTERS = 95  # the tokens of text: the printable characters of ASCII
END, START, ENGLISH, GERMAN, TRANSLATE, TRANSCRIBE, BEFORE, SILENCE, HIDDEN, FIRST = range(LETTERS, LETTERS + 10)
PLACES, RATE = 50, 16_000  # a second of sound, of two frames a place
VOCAB, ROOM = FIRST + PLACES + 1, 32
GENERATION = {
    "decoder_start_token_id": START, "eos_token_id": END, "pad_token_id": END, "bos_token_id": END,
    "no_timestamps_token_id": HIDDEN, "lang_to_id": {"<|en|>": ENGLISH, "<|de|>": GERMAN},
    "task_to_id": {"transcribe": TRANSCRIBE, "translate": TRANSLATE}, "is_multilingual": True,
    "suppress_tokens": [3, 4, START, TRANSLATE, TRANSCRIBE, BEFORE, SILENCE, ENGLISH, GERMAN],
    "begin_suppress_tokens": [0, END], "max_initial_timestamp_index": 10, "alignment_heads": [[0, 1], [1, 0], [1, 3]],
    "max_length": ROOM,
}  # fmt: skip
PROCESSOR = {"feature_size": 7, "sampling_rate": RATE, "n_fft": 400, "hop_length": 160, "chunk_length": 1}


class Letters(Tokenizer):
    """A token for every printable character of ASCII."""

    kind = "char"
    pad = unknown = mask = -1
    start, end, special = START, END, frozenset(range(END, VOCAB))

    def __init__(self) -> None:
        """Nothing has to be learned."""

    def __len__(self) -> int:
        return VOCAB

    def encode_all(self, texts: Any) -> list[list[int]]:
        return [[ord(letter) - 32 for letter in text] for text in texts]

    def decode(self, ids: Any) -> str:
        return "".join(chr(32 + id) for id in ids if id < LETTERS)

    def token(self, id: int) -> str:
        return chr(32 + id) if id < LETTERS else f"<{id}>"

    def pieces(self, text: str) -> list[Any]:
        return []


def their_model(seed: int = 0, **settings: Any) -> nn.Module:
    """A model of theirs, moved far enough from its start that it writes different things."""
    import transformers

    config = transformers.WhisperConfig(**{
        "vocab_size": VOCAB, "d_model": 24, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
        "decoder_attention_heads": 4, "encoder_ffn_dim": 40, "decoder_ffn_dim": 40, "num_mel_bins": 7,
        "max_source_positions": PLACES, "max_target_positions": ROOM, "attn_implementation": "eager", "pad_token_id": END,
        "bos_token_id": END, "eos_token_id": END, "decoder_start_token_id": START,
    } | settings)  # fmt: skip
    torch.manual_seed(seed)
    model = transformers.WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.35 * torch.randn_like(parameter))
    model.generation_config = transformers.GenerationConfig(**GENERATION)
    return model


def facts_of(theirs: nn.Module, **changes: Any) -> dict[str, Any]:
    """What a folder with this model states."""
    described = theirs.config.to_dict() | {"generation_config": GENERATION, "preprocessor_config": PROCESSOR} | changes
    return dict(whisper.checkpoint(described, []).facts)


def run_of(theirs: nn.Module, **changes: Any) -> Run:
    """The run that its checkpoint becomes."""
    facts = facts_of(theirs, **changes)
    model = whisper.load(theirs.config.to_dict(), theirs.state_dict())
    known = WhisperVocabulary(Vocabulary(Letters()), facts)
    settings = Settings(
        task="transcribe", name="whisper", config=model.config, recipe=Recipe(), data=TranscribeOptions(hears="waves"),
        source=Source(""), facts=facts,
    )  # fmt: skip
    return Run(Path("runs/whisper"), Transcribe(), model, known, settings)


def sound(seconds: float, seed: int = 0) -> np.ndarray:
    """A tone that climbs, in noise."""
    count = round(seconds * RATE)
    times = np.arange(count) / RATE
    noise = np.random.default_rng(seed).normal(size=count)
    swells = 0.3 + 0.3 * np.sin(2 * np.pi * (1.3 + seed) * times)
    return (0.02 * noise + swells * np.sin(2 * np.pi * (200 + 150 * seed) * times * (1 + times))).astype(np.float32)


def their_frames(*sounds: np.ndarray, **how: Any) -> torch.Tensor:
    """What they make of sounds."""
    import transformers

    extractor = transformers.WhisperFeatureExtractor(**PROCESSOR)
    return extractor(list(sounds), sampling_rate=RATE, return_tensors="pt", **how).input_features


def write_folder(home: Path, **changes: Any) -> nn.Module:
    """Write a checkpoint with a byte-level tokenizer; `changes` replace files of JSON, None leaves one out."""
    import transformers
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    engine = Tokenizer(models.BPE({letter: number for number, letter in enumerate(alphabet)}, []))
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    names = [
        "endoftext",
        "startoftranscript",
        "en",
        "de",
        "translate",
        "transcribe",
        "startofprev",
        "nospeech",
        "notimestamps",
    ]
    engine.add_special_tokens([AddedToken(f"<|{name}|>", special=True, normalized=False) for name in names])
    moments = [f"<|{0.02 * number:.2f}|>" for number in range(PLACES + 1)]
    engine.add_tokens([AddedToken(moment, special=False, normalized=False) for moment in moments])
    of = {name: 256 + number for number, name in enumerate(names)}
    end, start = of["endoftext"], of["startoftranscript"]
    theirs = their_model(
        vocab_size=engine.get_vocab_size(), pad_token_id=end, bos_token_id=end, eos_token_id=end,
        decoder_start_token_id=start, begin_suppress_tokens=[end],
    )  # fmt: skip
    written = {
        "decoder_start_token_id": start, "eos_token_id": end, "pad_token_id": end, "bos_token_id": end,
        "no_timestamps_token_id": of["notimestamps"], "is_multilingual": True, "begin_suppress_tokens": [end],
        "suppress_tokens": list(range(start, of["notimestamps"])), "lang_to_id": {"<|en|>": of["en"], "<|de|>": of["de"]},
        "task_to_id": {"transcribe": of["transcribe"], "translate": of["translate"]}, "max_length": ROOM,
    }  # fmt: skip
    theirs.generation_config = transformers.GenerationConfig(**written)
    theirs.save_pretrained(home)
    engine.save(str(home / "tokenizer.json"))
    files = {"preprocessor_config": PROCESSOR, "generation_config": written} | changes
    for name, content in files.items():
        path = home / f"{name}.json"
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_text(json.dumps(content))
    return theirs
