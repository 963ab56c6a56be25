"""Small folders with tokenizers of all usual kinds, as transformers saves them; each is trained on a few lines."""

import json
from collections.abc import Callable
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

LINES = [
    "The quick brown fox jumps over the lazy dog.", "the red house, the red car; the café is open!", "numbers 12 345 6789",
    "don't stop: we'll see what they've done", "La niña comió una piña — ¿dónde está el año?", "hello hello hello world",
] * 3  # fmt: skip
TEXTS = [
    "the red house", "The café's naïve résumé — costs €3,141.59!", "你好\uff0c世界 tokens", "emoji 😀👩‍👩‍👧 end", "", " ",
    "  spaces   and\ttabs\nnew\n\nlines  ", "ABC abc 12345 ½ ﬁ \uff41\uff42\uff43", "a" * 150,
    "don't we'll I'M", "combining e\u0301 o\u0308",
    "unknown ꙮ ꙮꙮ", "name_with_underscores ___ x", "\u200b zero\u00a0width\u3000space",
]  # fmt: skip
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
NAMES = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
ENDS = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def _bert(engine: Tokenizer) -> None:
    ids = [(name, engine.token_to_id(name)) for name in ("[SEP]", "[CLS]")]
    engine.post_processor = processors.BertProcessing(*ids)


def bert(folder: Path) -> None:
    """WordPiece, lower case."""
    engine = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    engine.normalizer, engine.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece()
    engine.train_from_iterator(LINES, trainers.WordPieceTrainer(vocab_size=150, special_tokens=list(BERT)))
    _bert(engine)
    engine.enable_truncation(7)
    engine.enable_padding(length=9)
    PreTrainedTokenizerFast(tokenizer_object=engine, **NAMES).save_pretrained(folder)


def cleaned(folder: Path) -> None:
    """The same, with spaces before signs dropped on the way back."""
    bert(folder)
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"clean_up_tokenization_spaces": True}))


def _byte_level(tokens: list[str], prefix: bool = False) -> Tokenizer:
    engine = Tokenizer(models.BPE())
    engine.pre_tokenizer, engine.decoder = pre_tokenizers.ByteLevel(add_prefix_space=prefix), decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=tokens, initial_alphabet=alphabet)
    engine.train_from_iterator(LINES, trainer)
    return engine


def gpt2(folder: Path) -> None:
    """Byte-level BPE without anything around."""
    engine, end = _byte_level(["<|endoftext|>"]), "<|endoftext|>"
    PreTrainedTokenizerFast(tokenizer_object=engine, bos_token=end, eos_token=end, unk_token=end).save_pretrained(
        folder
    )


def roberta(folder: Path) -> None:
    """Byte-level BPE with RoBERTa's frame, and a mask that takes the space before it."""
    engine = _byte_level(list(ROBERTA))
    engine.add_special_tokens([AddedToken("<mask>", lstrip=True, special=True)])
    engine.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    more = {"cls_token": "<s>", "sep_token": "</s>", "mask_token": AddedToken("<mask>", lstrip=True, special=True)}
    PreTrainedTokenizerFast(tokenizer_object=engine, **ENDS, **more).save_pretrained(folder)


def llama3(folder: Path) -> None:
    """Byte-level BPE with a pattern of its own and a beginning."""
    engine = _byte_level(["<|begin|>", "<|end|>"])
    engine.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    engine.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing("<|begin|> $A", "<|begin|> $A <|begin|>:1 $B:1", [("<|begin|>", 0)]),
        ]
    )
    names = {"bos_token": "<|begin|>", "eos_token": "<|end|>"}
    PreTrainedTokenizerFast(tokenizer_object=engine, **names).save_pretrained(folder)


def qwen(folder: Path) -> None:
    """The same after Unicode's composition, and with tokens that are added behind."""
    engine = _byte_level([])
    engine.normalizer = normalizers.NFC()
    engine.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    engine.add_tokens([AddedToken("<tool_call>", special=False, normalized=False)])
    names = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    PreTrainedTokenizerFast(tokenizer_object=engine, add_bos_token=False, **names).save_pretrained(folder)


def unigram(folder: Path) -> None:
    """Unigram with marks for spaces: T5, XLM-R."""
    engine = Tokenizer(models.Unigram())
    engine.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    engine.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    engine.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=120, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>")
    engine.train_from_iterator(LINES, trainer)
    engine.post_processor = processors.TemplateProcessing("$A </s>", "$A </s> $B </s>", [("</s>", 1)])
    names = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    more = [f"<extra_id_{number}>" for number in range(3)]
    PreTrainedTokenizerFast(tokenizer_object=engine, extra_special_tokens=more, **names).save_pretrained(folder)


def llama2(folder: Path) -> None:
    """BPE with marks for spaces, and bytes where a character is unknown."""
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    engine = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    engine.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    engine.train_from_iterator(LINES, trainers.BpeTrainer(vocab_size=400, special_tokens=tokens))
    described = json.loads(engine.to_str())
    described["added_tokens"] = described["added_tokens"][:3]  # bytes are no special tokens
    engine = Tokenizer.from_str(json.dumps(described))
    plain = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    engine.decoder = decoders.Sequence(plain)
    engine.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s>:1 $B:1", [("<s>", 1)])
    names = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=engine, add_bos_token=True, **names).save_pretrained(folder)


def words(folder: Path) -> None:
    """Whole words."""
    engine = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    engine.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(True)])
    engine.train_from_iterator(LINES, trainers.WordLevelTrainer(special_tokens=list(BERT)))
    _bert(engine)
    PreTrainedTokenizerFast(tokenizer_object=engine, **NAMES).save_pretrained(folder)


FOLDERS: dict[str, Callable[[Path], None]] = {
    each.__name__: each for each in (bert, cleaned, gpt2, roberta, llama3, qwen, unigram, llama2, words)
}  # fmt: skip
