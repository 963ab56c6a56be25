"""Tiny folders under the names that a tutorial uses, as transformers and sentence-transformers save them, and data for them."""

import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from tokenizers import (
    AddedToken,
    BertWordPieceTokenizer,
    Tokenizer,
    decoders,
    models,
    pre_tokenizers,
    processors,
    trainers,
)

from tests.tasks.transcribe import tiny_whisper

TEXTS = [
    "the red house is old.",
    "Ana has a key to the house in Lima",
    "a great film, a dull plot",
    "where is Paris?",
] * 3
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
HALVES = {
    "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 40,
}  # fmt: skip
WRITING = {"max_length": 10, "decoder_start_token_id": 1, "pad_token_id": 1, "eos_token_id": 2, "bos_token_id": 0}
LANGUAGES = ["eng_Latn", "spa_Latn"]
CHAT = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
PROCESSOR = {
    "image_processor_type": "ViTImageProcessor", "do_resize": True, "size": {"height": 8, "width": 8}, "do_rescale": True,
    "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 2,
}  # fmt: skip


def make(home: Path) -> None:
    """All folders below `models`, and the data that the tutorial reads."""
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.manual_seed(5)
    place = home / "models"
    _encoder(place / "bert-base-uncased", "ForMaskedLM")
    _encoder(place / "all-MiniLM-L6-v2", "Model")
    _sentences(place / "all-MiniLM-L6-v2")
    _marian(place / "opus-mt-en-es")
    _nllb(place / "nllb-200-distilled-600M")
    _llama(place / "SmolLM2-135M-Instruct")
    _vit(place / "vit-base-patch16-224")
    _clip(place / "clip-vit-base-patch32")
    tiny_whisper.write_folder(place / "whisper-base")
    _data(home)


def _saved(model: Any, folder: Path) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.2 * torch.randn_like(parameter))
    model.eval().save_pretrained(folder)


def _encoder(folder: Path, head: str) -> None:
    learner = BertWordPieceTokenizer(lowercase=True)
    learner.train_from_iterator(TEXTS, vocab_size=120, min_frequency=1, show_progress=False)
    folder.mkdir(parents=True)
    learner.save_model(str(folder))
    transformers.BertTokenizerFast(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    config = transformers.BertConfig(vocab_size=learner.get_vocab_size(), max_position_embeddings=64, **SIZES)
    _saved(getattr(transformers, f"Bert{head}")(config), folder)


def _sentences(folder: Path) -> None:
    """What sentence-transformers puts beside an encoder: the mean of the tokens, with length 1."""
    kinds = ("", "1_Pooling", "2_Normalize"), ("Transformer", "Pooling", "Normalize")
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (path, kind) in enumerate(zip(*kinds, strict=True))
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    pooling = {"word_embedding_dimension": 16, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))


def _words(folder: Path, more: list[str], template: str, **said: Any) -> int:
    """A tokenizer of words for both sides; returns how many tokens it has."""
    special = ["<s>", "<pad>", "</s>", "<unk>", *more]
    words = sorted({word for text in TEXTS for word in text.split()} | {"la", "casa", "roja", "es", "vieja"})
    vocab = {token: id for id, token in enumerate([*special, *(f"▁{word}" for word in words)])}
    engine = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    engine.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    framed = [(token, vocab[token]) for token in special]
    engine.post_processor = processors.TemplateProcessing(single=template, special_tokens=framed)
    names = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
    given = {"extra_special_tokens": more} if more else {}
    transformers.PreTrainedTokenizerFast(tokenizer_object=engine, **names, **given).save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | said))
    return len(vocab)


def _marian(folder: Path) -> None:
    size = _words(folder, [], "$A </s>")
    config = transformers.MarianConfig(
        vocab_size=size, **HALVES, **{k: v for k, v in WRITING.items() if k != "max_length"}
    )
    model = transformers.MarianMTModel(config)
    model.generation_config = transformers.GenerationConfig(**WRITING, num_beams=2)
    _saved(model, folder)


def _nllb(folder: Path) -> None:
    size = _words(folder, LANGUAGES, "eng_Latn $A </s>", tokenizer_class="NllbTokenizer", src_lang="eng_Latn")
    model = transformers.M2M100ForConditionalGeneration(transformers.M2M100Config(vocab_size=size, **HALVES))
    model.generation_config = transformers.GenerationConfig(**WRITING | {"decoder_start_token_id": 2})
    _saved(model, folder)


def _llama(folder: Path) -> None:
    engine = Tokenizer(models.BPE())
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = ["<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=290, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    engine.train_from_iterator(TEXTS, trainer)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=engine, eos_token="<|end|>", bos_token="<|end|>")
    tokenizer.chat_template = CHAT
    tokenizer.save_pretrained(folder)
    sizes = SIZES | {"num_key_value_heads": 1, "max_position_embeddings": 96, "bos_token_id": 0, "eos_token_id": 0}
    model = transformers.LlamaForCausalLM(
        transformers.LlamaConfig(vocab_size=len(tokenizer), pad_token_id=None, **sizes)
    )
    model.generation_config = transformers.GenerationConfig(max_new_tokens=8, bos_token_id=0, eos_token_id=0)
    _saved(model, folder)


def _vit(folder: Path) -> None:
    labels = {0: "cat", 1: "dog", 2: "house"}
    config = transformers.ViTConfig(
        image_size=8, patch_size=4, id2label=labels, label2id={v: k for k, v in labels.items()}, **SIZES
    )
    _saved(transformers.ViTForImageClassification(config), folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))


def _clip(folder: Path) -> None:
    size = _words(folder, [], "<s> $A </s>")
    read = SIZES | {"vocab_size": size, "projection_dim": 12, "bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2}
    seen = SIZES | {"image_size": 8, "patch_size": 4, "projection_dim": 12}
    _saved(
        transformers.CLIPModel(transformers.CLIPConfig(text_config=read, vision_config=seen, projection_dim=12)), folder
    )
    processor = PROCESSOR | {"image_processor_type": "CLIPImageProcessor", "crop_size": {"height": 8, "width": 8}}
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))


def _data(home: Path) -> None:
    """Reviews, tagged sentences, pairs of sentences, a picture and a recording."""
    rows = [("a great film", "pos"), ("the film is great", "pos"), ("a dull plot", "neg"), ("the plot is dull", "neg")]
    (home / "reviews.csv").write_text(
        "text,label\n" + "".join(f"{text} {i},{label}\n" for i in range(12) for text, label in rows)
    )
    people, places = ("Ana", "Luis", "Eva", "Juan"), ("Lima", "Paris", "Rome", "Quito", "Lyon")
    tagged = [f"{who} B-PER\nhas O\na O\nkey O\nin O\n{where} B-LOC\n" for who in people for where in places]
    (home / "names.conll").write_text("\n".join(tagged))
    (home / "pairs.tsv").write_text("".join(f"the red house is {n} old\tla casa roja es {n}\n" for n in range(20)))
    numbers = np.random.default_rng(0).integers(0, 255, (12, 12, 3), dtype=np.uint8)
    Image.fromarray(numbers).save(home / "photo.png")
    sound = (tiny_whisper.sound(1.5) * 20_000).astype("<i2")
    with wave.open(str(home / "talk.wav"), "wb") as file:
        file.setparams((1, 2, tiny_whisper.RATE, 0, "NONE", ""))
        file.writeframes(sound.tobytes())
