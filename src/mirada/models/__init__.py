"""The models of the lectures, one file each: `XConfig`, `XConfig.tiny()`, `X`. No model imports a model.

>>> from mirada.models import GPT, GPTConfig
>>> GPT(GPTConfig.tiny()).config.depth
2
"""

from typing import TYPE_CHECKING

from mirada.lazy import submodules

if TYPE_CHECKING:
    from mirada.models.bert import BERT, BERTConfig
    from mirada.models.captioner import Captioner, CaptionerConfig
    from mirada.models.classifier import Classifier, ClassifierConfig
    from mirada.models.clip import CLIP, CLIPConfig
    from mirada.models.encoder import TextEncoder, TextEncoderConfig
    from mirada.models.forecaster import Forecaster, ForecasterConfig
    from mirada.models.gat import GAT, GATConfig
    from mirada.models.gpt import GPT, GPTConfig
    from mirada.models.reader import Reader, ReaderConfig
    from mirada.models.seq2seq import Seq2Seq, Seq2SeqConfig
    from mirada.models.transcriber import Transcriber, TranscriberConfig
    from mirada.models.transformer import Transformer, TransformerConfig
    from mirada.models.vit import ViT, ViTConfig
    from mirada.models.whisper import Whisper, WhisperConfig

__all__ = [
    "BERT", "CLIP", "GAT", "GPT", "BERTConfig", "CLIPConfig", "Captioner", "CaptionerConfig", "Classifier", "ClassifierConfig",
    "Forecaster", "ForecasterConfig", "GATConfig", "GPTConfig", "Reader", "ReaderConfig", "Seq2Seq", "Seq2SeqConfig",
    "TextEncoder", "TextEncoderConfig", "Transcriber", "TranscriberConfig", "Transformer", "TransformerConfig", "ViT",
    "ViTConfig", "Whisper", "WhisperConfig",
]  # fmt: skip

__getattr__ = submodules(__name__)
