"""The cases of the battery, one file per model."""

from tests.models.cases.bert import BERTCase
from tests.models.cases.captioner import CaptionerCase
from tests.models.cases.case import Case
from tests.models.cases.classifier import ClassifierCase
from tests.models.cases.clip import CLIPCase
from tests.models.cases.encoder import TextEncoderCase
from tests.models.cases.forecaster import ForecasterCase
from tests.models.cases.gat import GATCase
from tests.models.cases.gpt import GPTCase
from tests.models.cases.reader import ReaderCase
from tests.models.cases.seq2seq import Seq2SeqCase
from tests.models.cases.transcriber import TranscriberCase
from tests.models.cases.transformer import TransformerCase
from tests.models.cases.vit import ViTCase
from tests.models.cases.whisper import WhisperCase

CASES: list[Case] = [
    BERTCase(), CaptionerCase(), ClassifierCase(), CLIPCase(), ForecasterCase(), GATCase(), GPTCase(), ReaderCase(),
    Seq2SeqCase(), TextEncoderCase(), TranscriberCase(), TransformerCase(), ViTCase(), WhisperCase(),
]  # fmt: skip
