"""The tokenizer of a checkpoint's folder: which of its files say how texts are cut, and which tokens are special.

| files | what reads them |
|---|---|
| tokenizer.json | the engine, within bounds |
| source.spm, target.spm, vocab.json | SentencePiece for each side, numbers from vocab.json (Marian) |
| sentencepiece.bpe.model, vocab.json | SentencePiece, numbers from vocab.json (M2M100) |
| spiece.model, tokenizer.model, ... | SentencePiece |
| vocab.json, merges.txt | byte-level BPE: GPT-2, RoBERTa, Qwen2, CLIP |
| vocab.txt | WordPiece (BERT); letters (ESM) |
| tokenizer.bin, tok512.bin, ... | pieces with scores (llama2.c) |
| none | the text is the numbers of tokens |

Special tokens are those of tokenizer_config.json, of special_tokens_map.json, of config.json, in this order.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Engine

from mirada.data.text.bounded import MOST_ADDED, MOST_TOKENS
from mirada.data.text.pretrained import (
    FIRST,
    SECOND,
    Frame,
    NumberTokenizer,
    PieceTokenizer,
    PretrainedTokenizer,
    SpecialTokens,
    read_engine,
    special_added,
)
from mirada.data.text.scored import tokenizer_json
from mirada.data.text.spm import CONTROL, UNKNOWN, PieceModel, ScoredPiece, read_pieces
from mirada.data.text.tokenize import Tokenizer
from mirada.errors import require
from mirada.files import parsed, read_json, read_whole
from mirada.words import shortened

LARGEST = 256 << 20  # bytes of a file
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
USUAL = {  # where nothing says which tokens are special
    "pad_token": ("[PAD]", "<pad>"), "unk_token": ("[UNK]", "<unk>"), "cls_token": ("[CLS]", "<cls>", "<s>"),
    "sep_token": ("[SEP]",), "eos_token": ("</s>", "<eos>"), "mask_token": ("[MASK]", "<mask>"),
}  # fmt: skip
SCORED = re.compile(r"tok(enizer|[0-9]+)\.bin")
MODELS = ("spiece.model", "tokenizer.model", "sentencepiece.bpe.model", "sentencepiece.model", "spm.model")
PLACES = {"Nllb": "first", "MBart50": "first", "M2M100": "first", "MBart": "last"}  # of a text's language, by class
LANGUAGE = re.compile(r"[a-z]{2,3}_(?:[A-Z]{2}|[A-Z][a-z]{3})|__([a-z]{2,3})__")
QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UNFRAMED = (
    "gpt",
    "opt",
    "qwen",
    "llama",
    "mistral",
    "smollm",
    "phi",
)  # texts of decoders have no end, and may have <mask>
CODES = {  # of languages, behind the vocabulary of M2M100 and mBART, where the folder does not list them
    "m2m100": (
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy id "
        "ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si "
        "sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"
    ),
    "wmt21": "en ha is ja cs ru zh de",
    "mbart": (
        "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM "
        "ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"
    ),
    "mbart50": (
        "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT lv_LV my_MM "
        "ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH "
        "mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES "
        "sl_SI"
    ),
}
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def read_tokenizer(files: Mapping[str, Path], theirs: Mapping[str, Any]) -> Tokenizer:
    """The tokenizer of a checkpoint.

    Args:
        files: the files of its folder, by name.
        theirs: its config.json; `tokenizer_config` in it, where it was read already.

    >>> read_tokenizer({}, {"vocab_size": 100, "eos_token_id": 7})
    NumberTokenizer(100)
    """
    config = theirs.get("tokenizer_config")
    if config is None:
        config = read_json(files["tokenizer_config.json"]) if "tokenizer_config.json" in files else {}
    require(isinstance(config, dict), "tokenizer_config.json must hold a JSON object")
    settings = dict(config)
    if "special_tokens_map.json" in files:
        settings = read_json(files["special_tokens_map.json"]) | {k: v for k, v in settings.items() if v is not None}
    folder = _Folder(files, theirs, settings)
    name = folder.tokenizer_file()
    if not name:
        return _numbers(theirs)
    try:
        tokenizer = folder.read(name)
        tokenizer.encode("a text, 12 ꙮ")  # a file may lack what only an unknown letter needs
        return tokenizer
    except (KeyboardInterrupt, SystemExit, MemoryError):
        raise
    except BaseException as error:  # the engine has no type of error of its own, and a panic in it is no Exception
        reason = shortened(" ".join(str(error).split()), 300)
        raise ValueError(f"{files[name]} cannot be read as a tokenizer: {reason}") from None


def require_fit(tokenizer: Tokenizer, vocab: int) -> None:
    """Require that a model has a row for every token; it may have more, as tables are often filled up.

    >>> require_fit(NumberTokenizer(100), 99)
    Traceback (most recent call last):
    ValueError: the tokenizer has 100 tokens, and the model has a vocabulary of 99: they do not belong together.
    """
    fits = len(tokenizer) <= vocab
    message = f"the tokenizer has {len(tokenizer):,} tokens, and the model has a vocabulary of {vocab:,}: they do not"
    require(fits, f"{message} belong together.")


def _numbers(theirs: Mapping[str, Any]) -> NumberTokenizer:
    """A text is numbers, with the special tokens that config.json names."""
    size = theirs.get("vocab_size")
    require(
        type(size) is int and size > 0,
        f"vocab_size in config.json must be a number from 1: got {shortened(repr(size))}",
    )
    assert isinstance(size, int)
    ids = {role: _number(theirs, role) for role in ROLES}
    ids = {role: id if id < size else -1 for role, id in ids.items()}
    special = tuple(sorted({id for id in ids.values() if id >= 0}))
    start, end = max(ids["bos_token"], ids["cls_token"]), max(ids["eos_token"], ids["sep_token"])
    return NumberTokenizer(
        size, SpecialTokens(pad=ids["pad_token"], start=start, end=end, mask=ids["mask_token"], special=special)
    )


def _number(theirs: Mapping[str, Any], role: str) -> int:
    """The number of a special token in config.json; of several, the first; -1: it names none."""
    id = theirs.get(f"{role}_id")
    id = id[0] if isinstance(id, list) and id else id
    return id if type(id) is int and 0 <= id < MOST_TOKENS else -1


class _Folder:
    """The files of a folder and what is said about special tokens, together."""

    def __init__(self, files: Mapping[str, Path], theirs: Mapping[str, Any], settings: Mapping[str, Any]) -> None:
        self.files, self.theirs, self.settings = files, theirs, settings
        named = str(settings.get("tokenizer_class") or "").removesuffix("Fast").removesuffix("Tokenizer")
        self.family = named or str(theirs.get("model_type") or "")
        self.names = {role: text for role in ROLES if (text := content(settings.get(role)))}

    def tokenizer_file(self) -> str:
        """The file that the tokenizer is read from; "" where there is none."""
        known = ("tokenizer.json", "source.spm", *MODELS)
        found = [name for name in known if name in self.files]
        others = sorted(name for name in self.files if name.endswith((".model", ".spm")) and name not in known)
        pair = ["vocab.json"] if {"vocab.json", "merges.txt"} <= set(self.files) else []
        scored = [name for name in self.files if SCORED.fullmatch(name)]
        return [*found, *others, *pair, *(["vocab.txt"] if "vocab.txt" in self.files else []), *scored, ""][0]

    def text(self, name: str) -> str:
        """The text of a file."""
        require(name in self.files, f"{name} is missing beside it")
        return read_whole(self.files[name], LARGEST).decode()

    def object(self, name: str) -> dict[str, Any]:
        """The JSON object in a file."""
        value = parsed(self.text(name))
        require(isinstance(value, dict), f"{name} must hold a JSON object")
        return dict(value)

    def read(self, name: str) -> Tokenizer:
        """The tokenizer of that file."""
        if name == "tokenizer.json":
            text = self.text(name)
            described = parsed(text)
            engine = read_engine(text, described)  # first: what it may hold is bounded
            return self.pretrained(engine, *frames_of(described.get("post_processor")))
        if SCORED.fullmatch(name):
            text = tokenizer_json(self.files[name], int(self.theirs.get("vocab_size", 0)))
            return self.pretrained(read_engine(text), *frames_of(parsed(text)["post_processor"]))
        if name == "vocab.json":
            return self.pretrained(*self.byte_level())
        if name == "vocab.txt":
            return self.pretrained(*self.words())
        if "vocab.json" in self.files:
            return self.numbered(name)
        return self.sentencepiece(name)

    # special tokens

    def pretrained(self, engine: Engine, single: Frame = ((FIRST, 0),), pair: Frame = ()) -> PretrainedTokenizer:
        """The tokenizer over an engine, with what is said about its special tokens."""
        self.add_tokens(engine)
        known = self.special(engine.get_vocab(with_added_tokens=True), single, pair)
        names = [token for id in known.special if (token := engine.id_to_token(id)) is not None]
        special_added(engine, names)
        more = [id for id, token in engine.get_added_tokens_decoder().items() if token.special]
        every = tuple(sorted({*known.special, *more}))
        return PretrainedTokenizer(engine, SpecialTokens(**(vars(known) | {"special": every})))

    def add_tokens(self, engine: Engine) -> None:
        """Add the tokens that stand in tokenizer_config.json or added_tokens.json, and not in the vocabulary."""
        listed = self.settings.get("added_tokens_decoder") or {}
        require(
            isinstance(listed, dict) and len(listed) <= MOST_ADDED, "added_tokens_decoder must hold tokens by number"
        )
        tokens = {str(id): token for id, token in listed.items()}
        if "added_tokens.json" in self.files:
            tokens = {str(id): {"content": text} for text, id in self.object("added_tokens.json").items()} | tokens
        for id, token in sorted(tokens.items(), key=lambda pair: int(pair[0]) if pair[0].isdecimal() else -1):
            text = content(token)
            if text is None or engine.token_to_id(text) is not None:
                continue
            said = token if isinstance(token, dict) else {}
            flags = {key: said.get(key) is True for key in ("special", "lstrip", "rstrip", "single_word", "normalized")}
            engine.add_tokens([AddedToken(text, **flags)])
            got = engine.token_to_id(text)
            require(
                str(got) == id, f"the added token {shortened(text, 40)!r} has the number {id}, and comes to be {got}"
            )

    def special(self, ids: Mapping[str, int], single: Frame, pair: Frame) -> SpecialTokens:
        """What is said about special tokens, in a vocabulary."""
        named, names = bool(self.names), dict(self.names)
        if not named:
            names = {role: text for role, known in USUAL.items() for text in reversed(known) if text in ids}
        roles = {role: ids.get(names.get(role, ""), -1) for role in ROLES}
        for role in ROLES:
            number = _number(self.theirs, role)
            if roles[role] < 0 and role not in names and number in set(ids.values()):
                roles[role] = number
        by_id = {id: token for token, id in ids.items()}
        names |= {role: by_id[id] for role, id in roles.items() if id >= 0}
        start = roles["cls_token"] if roles["cls_token"] >= 0 else roles["bos_token"]
        end = roles["sep_token"] if roles["sep_token"] >= 0 else roles["eos_token"]
        unknown = roles["unk_token"] if roles["unk_token"] not in (start, end, roles["eos_token"]) else -1
        extra = [ids[text] for each in self.extra() if (text := content(each)) in ids and text is not None]
        single, pair = self.explicit(roles, single, pair)
        place, languages = self.languages(ids, [*extra, *roles.values()])
        return SpecialTokens(
            pad=roles["pad_token"], unknown=unknown, start=start, end=end, mask=roles["mask_token"],
            special=tuple(sorted({*extra, *languages.values(), *(id for id in roles.values() if id >= 0)})),
            single=single, pair=pair, clean=self.settings.get("clean_up_tokenization_spaces") is True,
            languages=languages, place=place, language=str(self.settings.get("src_lang") or "") if place else "",
            names=names, chat=self.chat(),
        )  # fmt: skip

    def explicit(self, roles: Mapping[str, int], single: Frame, pair: Frame) -> tuple[Frame, Frame]:
        """The frames, where tokenizer_config.json says itself whether texts begin and end with a token."""
        begin, end = self.settings.get("add_bos_token"), self.settings.get("add_eos_token")
        if begin is None and end is None:
            return single, pair
        before = ((roles["bos_token"], 0),) if begin and roles["bos_token"] >= 0 else ()
        after = ((roles["eos_token"], 0),) if end and roles["eos_token"] >= 0 else ()
        one: Frame = (*before, (FIRST, 0), *after)
        return one, (*one, *(((SECOND, 1) if what == FIRST else (what, 1)) for what, _ in one))

    def languages(self, ids: Mapping[str, int], special: Sequence[int]) -> tuple[str, dict[str, int]]:
        """Where the language of a text stands, and the tokens of languages, where the checkpoint has several."""
        place = PLACES.get(self.family, "")
        if place == "first" and self.settings.get("legacy_behaviour") is True:
            place = "last"
        if not place:
            return "", {}
        found = {(match[1] or text): id for text, id in ids.items() if (match := LANGUAGE.fullmatch(text))}
        named = self.settings.get("src_lang")
        message = "additional_special_tokens in tokenizer_config.json must list the codes of its languages"
        require(bool(found) or not named, f"{message}: src_lang is {shortened(str(named), 40)}, and there are none")
        return (place, found) if found else ("", {})

    def chat(self) -> str:
        """The chat template of the folder: of several, the one called default."""
        if "chat_template.jinja" in self.files:
            return self.text("chat_template.jinja")
        template = self.settings.get("chat_template")
        if template is None and "chat_template.json" in self.files:
            template = self.object("chat_template.json").get("chat_template")
        if isinstance(template, list):
            named = {str(each.get("name")): each.get("template") for each in template if isinstance(each, dict)}
            template = named.get("default")
        return template if isinstance(template, str) else ""

    # SentencePiece

    def numbered(self, name: str) -> Tokenizer:
        """Models whose pieces have the numbers of vocab.json: one for each side, or one for both."""
        vocab, size = self.object("vocab.json"), len(self.object("vocab.json"))
        require(
            "target_vocab.json" not in self.files, "the sides have vocabularies of their own, which is not supported"
        )
        codes = [text for each in self.extra() if (text := content(each)) and LANGUAGE.fullmatch(text)]
        if self.family.lower().startswith("m2m"):
            usual_codes = CODES.get(str(self.settings.get("language_codes") or "m2m100"), "")
            codes = codes or [f"__{code}__" for code in usual_codes.split()]
            vocab |= {text: size + number for number, text in enumerate(code for code in codes if code not in vocab)}
        for role, usual in (("eos_token", "</s>"), ("unk_token", "<unk>"), ("pad_token", "<pad>")):
            if usual in vocab:
                self.names.setdefault(role, usual)
        require(all(type(id) is int for id in vocab.values()), "vocab.json must number its pieces")
        model = read_pieces(read_whole(self.files[name], LARGEST))
        target = read_pieces(read_whole(self.files["target.spm"], LARGEST)) if "target.spm" in self.files else None
        end = vocab.get(self.names.get("eos_token", ""), -1)
        require(end >= 0, "vocab.json has no token for the end of a text")
        known = self.special(vocab, ((FIRST, 0), (end, 0)), ((FIRST, 0), (SECOND, 0), (end, 0)))
        return PieceTokenizer(model.engine(), known, vocab, None if target is None else target.engine())

    def sentencepiece(self, name: str) -> Tokenizer:
        """A model by itself: its pieces in its order, or as fairseq numbers them (XLM-R, mBART, NLLB)."""
        model, family = read_pieces(read_whole(self.files[name], LARGEST)), self.family.lower()
        extra = [text for each in self.extra() if (text := content(each))]
        codes = [text for text in extra if LANGUAGE.fullmatch(text)] or CODES.get(family, "").split()
        if family.startswith(("xlm-rob", "xlmrob", "mbart", "nllb", "camembert", "xglm")):
            require(not family.startswith(("camembert", "xglm")), f"{self.family} numbers its pieces in its own way")
            engine = model.engine(_offset_pieces(model, [*codes, "<mask>"]))
            for role, usual in (
                ("bos_token", "<s>"),
                ("pad_token", "<pad>"),
                ("eos_token", "</s>"),
                ("unk_token", "<unk>"),
            ):
                self.names.setdefault(role, usual)
            self.names.setdefault("mask_token", "<mask>")
            if family.startswith("xlm"):
                self.names |= {"cls_token": "<s>", "sep_token": "</s>"}
            return self.pretrained(engine, *roberta_frames(0, 2))
        if family in ("t5", "mt5", "umt5"):
            count = self.settings.get("extra_ids", 100)
            require(type(count) is int and 0 <= count <= 10_000, "extra_ids must be a number")
            named = {piece.text for piece in model.pieces}
            more = [f"<extra_id_{number}>" for number in reversed(range(count))]
            behind = [ScoredPiece(text, 0.0, CONTROL) for text in more if text not in named]
            engine = model.engine([*model.pieces, *behind])
        else:
            engine = model.engine()
        ids = engine.get_vocab(with_added_tokens=True)
        for role, usual in (
            ("bos_token", "<s>"),
            ("pad_token", "<pad>"),
            ("eos_token", "</s>"),
            ("unk_token", "<unk>"),
        ):
            if usual in ids and (role != "bos_token" or family not in ("t5", "mt5", "umt5")):
                self.names.setdefault(role, usual)
        return self.pretrained(engine, *self.piece_frames(ids, family))

    def piece_frames(self, ids: Mapping[str, int], family: str) -> tuple[Frame, Frame]:
        """What stands around texts of a SentencePiece model, by what its special tokens are."""
        if {"[CLS]", "[SEP]"} <= set(ids):
            return bert_frames(ids["[CLS]"], ids["[SEP]"])
        start, end = (ids.get(self.names.get(role, ""), -1) for role in ("bos_token", "eos_token"))
        if family in ("t5", "mt5", "umt5") and end >= 0:
            return ((FIRST, 0), (end, 0)), ((FIRST, 0), (end, 0), (SECOND, 0), (end, 0))
        if family in ("llama", "mistral", "gemma") and start >= 0:
            return ((start, 0), (FIRST, 0)), ((start, 0), (FIRST, 0), (start, 1), (SECOND, 1))
        return ((FIRST, 0),), ((FIRST, 0), (SECOND, 1))

    def extra(self) -> list[Any]:
        """Further special tokens, as they are listed."""
        more = self.settings.get("additional_special_tokens") or self.settings.get("extra_special_tokens") or []
        return list(more.values()) if isinstance(more, dict) else more if isinstance(more, list) else []

    # engines of plain vocabularies

    def byte_level(self) -> tuple[Engine, Frame, Frame]:
        """BPE over bytes: vocab.json and merges.txt."""
        vocab = self.object("vocab.json")
        lines = [
            line for line in self.text("merges.txt").split("\n") if line.strip() and not line.startswith("#version")
        ]
        pairs = [line.rstrip("\r").split(" ") for line in lines]
        require(
            all(len(pair) == 2 for pair in pairs), "merges.txt must have two tokens a line, with a space between them"
        )
        merges = [(first, second) for first, second in pairs]
        require(all(type(id) is int for id in vocab.values()), "vocab.json must number its tokens")
        prefix = self.settings.get("add_prefix_space") is True
        lowered = self.family.lower()
        clip, qwen = lowered.startswith("clip"), lowered.startswith("qwen")
        ended, unknown = ("</w>", self.names.get("unk_token")) if clip else ("", None)
        model = models.BPE(vocab, merges, continuing_subword_prefix="", end_of_word_suffix=ended, unk_token=unknown)
        engine = Engine(model)
        engine.decoder = decoders.ByteLevel()
        if clip:
            cleaning = [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
            engine.normalizer = normalizers.Sequence(cleaning)
            split = pre_tokenizers.Split(Regex(CLIP), "removed", invert=True)
            engine.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False)])
        elif qwen:
            engine.normalizer = normalizers.NFC()
            split = pre_tokenizers.Split(Regex(QWEN), "isolated")
            bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=False)
            engine.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_only])
        else:
            engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
        return engine, *self.byte_frames(vocab, clip)

    def byte_frames(self, vocab: Mapping[str, int], clip: bool) -> tuple[Frame, Frame]:
        """What stands around texts of a byte-level BPE: RoBERTa's tokens, where they are in an encoder's vocabulary."""
        if clip:
            start, end = (vocab.get(text, -1) for text in ("<|startoftext|>", "<|endoftext|>"))
        elif {"<s>", "</s>", "<mask>"} <= set(vocab) and not self.family.lower().startswith(UNFRAMED):
            start, end = vocab["<s>"], vocab["</s>"]
        else:
            return ((FIRST, 0),), ((FIRST, 0), (SECOND, 1))
        require(min(start, end) >= 0, "its vocabulary has no token for the start or the end of a text")
        return roberta_frames(start, end)

    def words(self) -> tuple[Engine, Frame, Frame]:
        """A token a line: WordPiece with the rules of BERT, or the letters of ESM."""
        lines = self.text("vocab.txt").split("\n")
        vocab = {line.rstrip(): number for number, line in enumerate(lines[:-1] if not lines[-1] else lines)}
        if self.family.lower().startswith("esm") or "<cls>" in vocab:
            return self.letters(vocab)
        for role, (usual, *_) in USUAL.items():
            if usual in vocab:
                self.names.setdefault(role, usual)
        lower = self.settings.get("do_lower_case")
        engine = Engine(models.WordPiece(vocab, unk_token=self.names.get("unk_token", "[UNK]")))
        engine.normalizer = normalizers.BertNormalizer(
            clean_text=True, handle_chinese_chars=self.settings.get("tokenize_chinese_chars") is not False,
            strip_accents=self.settings.get("strip_accents"), lowercase=lower is not False,
        )  # fmt: skip
        engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        engine.decoder = decoders.WordPiece("##")
        start, end = (vocab.get(self.names.get(role, ""), -1) for role in ("cls_token", "sep_token"))
        require(min(start, end) >= 0, "its vocabulary has no [CLS] or no [SEP]")
        return engine, *bert_frames(start, end)

    def letters(self, vocab: dict[str, int]) -> tuple[Engine, Frame, Frame]:
        """The letters of proteins, with or without spaces between them."""
        usual = {
            "unk_token": "<unk>",
            "cls_token": "<cls>",
            "pad_token": "<pad>",
            "mask_token": "<mask>",
            "eos_token": "<eos>",
        }
        for role, text in usual.items():
            if text in vocab:
                self.names.setdefault(role, text)
        require(len(vocab) <= 1000, f"a vocabulary of letters has at most 1,000 tokens: got {len(vocab):,}")
        require(
            {"unk_token", "cls_token", "eos_token"} <= set(self.names), "its vocabulary has no <unk>, <cls> or <eos>"
        )
        engine = Engine(models.WordLevel(vocab, unk_token=self.names["unk_token"]))
        plain = sorted(set(vocab) - set(self.names.values()) - {""}, key=lambda token: (-len(token), token))
        letters = pre_tokenizers.Split(Regex("|".join(map(re.escape, plain))), "isolated")
        engine.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), letters])
        start, end = vocab[self.names["cls_token"]], vocab[self.names["eos_token"]]
        single: Frame = ((start, 0), (FIRST, 0), (end, 0))
        return engine, single, (*single, (SECOND, 0), (end, 0))


def _offset_pieces(model: PieceModel, more: Sequence[str]) -> list[ScoredPiece]:
    """Pieces as fairseq numbers them: its own four, those of the file behind its three, and `more`."""
    own = [ScoredPiece("<s>", 0.0, CONTROL), ScoredPiece("<pad>", 0.0, CONTROL), ScoredPiece("</s>", 0.0, CONTROL)]
    rest = [piece for piece in model.pieces[3:] if piece.text not in more]
    behind = [ScoredPiece(text, 0.0, CONTROL) for text in more]
    return [*own, ScoredPiece("<unk>", 0.0, UNKNOWN), *rest, *behind]


def content(token: object) -> str | None:
    """The text of a special token, which is written as itself or as an object.

    >>> content("[CLS]"), content({"content": "<s>", "lstrip": False}), content(None)
    ('[CLS]', '<s>', None)
    """
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) and text else None


def bert_frames(start: int, end: int) -> tuple[Frame, Frame]:
    """[CLS] A [SEP] B [SEP]: the second text is the second segment."""
    single: Frame = ((start, 0), (FIRST, 0), (end, 0))
    return single, (*single, (SECOND, 1), (end, 1))


def roberta_frames(start: int, end: int) -> tuple[Frame, Frame]:
    """<s> A </s></s> B </s>: one segment."""
    single: Frame = ((start, 0), (FIRST, 0), (end, 0))
    return single, (*single, (end, 0), (SECOND, 0), (end, 0))


def frames_of(part: Any) -> tuple[Frame, Frame]:
    """What the post-processor of a tokenizer.json puts around one text and around two.

    >>> frames_of({"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]})[0]
    ((2, 0), ('A', 0), (3, 0))
    """
    plain: tuple[Frame, Frame] = ((FIRST, 0),), ((FIRST, 0), (SECOND, 1))
    if part is None:
        return plain
    kind = part["type"]
    if kind == "Sequence":
        around = [frames for each in part["processors"] if (frames := frames_of(each)) != plain]
        require(len(around) <= 1, "its post_processor puts several frames around a text")
        return around[0] if around else plain
    if kind == "TemplateProcessing":
        return _template(part, "single"), _template(part, "pair")
    if kind in ("BertProcessing", "RobertaProcessing"):
        start, end = (part[key][1] for key in ("cls", "sep"))
        return bert_frames(start, end) if kind == "BertProcessing" else roberta_frames(start, end)
    return plain


def _template(part: Mapping[str, Any], name: str) -> Frame:
    """A frame of a template."""
    frame: list[tuple[int | str, int]] = []
    for piece in part[name]:
        ((kind, each),) = piece.items()
        if kind == "Sequence":
            frame.append((each["id"], each["type_id"]))
        else:
            frame += [(id, each["type_id"]) for id in part["special_tokens"][each["id"]]["ids"]]
    return tuple(frame)
