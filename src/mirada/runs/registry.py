"""The tasks by name, with all that the command line says about them. Importing this imports no torch."""

from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from mirada.errors import unknown

if TYPE_CHECKING:
    from mirada.runs.task import Task


GROUP = "mirada.tasks"  # entry points of other packages: each names a TaskEntry


@dataclass(frozen=True)
class TaskEntry:
    """What a person wants done, and what it takes. The first model is the default."""

    about: str
    models: tuple[str, ...]
    builtin: str  # the data that comes with mirada; "" for a task that only takes imported models
    reads: str
    metric: str
    home: str  # module:class of the task
    takes: str = "texts"  # what `mirada run` is given
    imports: str = ""  # the checkpoints that `mirada import` makes runs of this task of
    answers: str = "text, score"  # what comes back; the words are the fields of --json

    def task(self) -> "Task":
        """The task itself; this is where torch is imported."""
        module, name = self.home.split(":")
        return getattr(import_module(module), name)()


ENCODERS = "BERT, RoBERTa, DistilBERT, ELECTRA, ESM-2, ModernBERT"
CATALOG = {
    "translate": TaskEntry(
        "write a sentence in another language",
        ("transformer", "bahdanau", "luong", "luong-local-m", "luong-local-p", "rnn"),
        "English to Spanish sentences of a grammar (reverse=yes: Spanish to English)",
        "pairs: TSV, CSV, JSON, Parquet, or two aligned text files (train.en,train.es)",
        "BLEU, chrF",
        "mirada.tasks.translate.task:Translate",
        takes="sentences",
        answers="text, score, with --best ranked",
        imports="Marian, BART, mBART, M2M100, NLLB, T5",
    ),
    "classify": TaskEntry(
        "give a text one of the labels it was trained with",
        ("transformer", "lstm-attention", "conv-attention", "encoder"),
        "reviews with negation and contrast",
        "texts and labels: TSV, CSV, JSON, Parquet, fastText lines, or a folder of text files for each class",
        "accuracy, macro F1",
        "mirada.tasks.classify.task:Classify",
        takes="texts",
        answers="text (the label), score (its probability), ranked (all labels)",
        imports=f"{ENCODERS} with labels",
    ),
    "tag": TaskEntry(
        "tag the words of a text: names of persons and places, dates, parts of speech",
        ("encoder",),
        "sentences about people who go somewhere some day",
        "CoNLL's columns (column=), CoNLL-U, or JSON lines with tokens and tags, or with text and spans",
        "F1 of whole spans, accuracy of words",
        "mirada.tasks.tag.task:Tag",
        takes="texts",
        answers="text (with its spans marked), score, spans (start, end, label, text, score)",
        imports=f"{ENCODERS} with tags",
    ),
    "estimate": TaskEntry(
        "estimate a number from a text or from the columns of a table",
        ("transformer",),
        "flats and their rents",
        "tables of numbers, words and texts: CSV, TSV, JSON, Parquet; target=, inputs=",
        "mean absolute error, R2, beside the mean and ridge regression",
        "mirada.tasks.estimate.task:Estimate",
        takes='rows, as "size=70, rooms=3" or JSON objects; texts, where the only column holds texts',
        answers="text (the number), value, reader (what estimated it: attention, ridge or both)",
    ),
    "answer": TaskEntry(
        "find the answer to a question in a passage",
        ("reader", "encoder"),
        "short stories in English and Spanish: who is where, who has what, when and why",
        "questions with their passages: SQuAD JSON, or JSONL with question, context, answer (and start)",
        "exact match, F1",
        "mirada.tasks.answer.task:AnswerQuestions",
        takes="questions, with --passage FILE or --passage -",
        answers='text ("" if the passage has no answer), score (its probability), start and end in characters',
        imports=f"{ENCODERS} with a head for answers",
    ),
    "recognize": TaskEntry(
        "tell what a picture shows, and which part of it decided",
        ("vit", "conv-attention"),
        "drawn objects in clutter, with their places",
        "pictures: a folder per class, idx files (IMAGES,LABELS, as MNIST), FILE.npz with images and labels, a table of pixels",
        "accuracy, macro F1",
        "mirada.tasks.recognize.task:Recognize",
        takes="paths of pictures; FILE.npz:17 is one of many",
        answers="text (the class), score (its probability), ranked (all classes), reader (which one decided)",
        imports="ViT, DeiT, DINOv2 with classes",
    ),
    "caption": TaskEntry(
        "say in a sentence what a picture shows",
        ("soft", "hard", "transformer"),
        "drawn scenes: a red circle left of a blue square",
        "a folder of pictures with captions.txt, .tsv, .csv or .jsonl (name, caption)",
        "BLEU, CIDEr, pointing",
        "mirada.tasks.caption.task:Caption",
        takes="paths of pictures",
        answers="text, score, with --best ranked",
    ),
    "write": TaskEntry(
        "continue a text",
        ("gpt",),
        "the documentation that comes with Python",
        "text files, or folders of them",
        "perplexity, bits per character",
        "mirada.tasks.write.task:Write",
        takes="beginnings of texts",
        answers="text, score",
        imports="GPT-2, OPT, Llama, Mistral, Qwen2, Qwen3, SmolLM, Phi-3",
    ),
    "embed": TaskEntry(
        "turn a text or a picture into a vector, near those that mean the same; with CLIP, rank texts for a picture",
        ("encoder", "vit", "clip"),
        "",
        "to measure with: pairs of texts and their similarity (first, second, score): TSV, CSV, JSON, Parquet",
        "Spearman and Pearson correlation of the cosines with the similarities",
        "mirada.tasks.embed.task:Embed",
        takes="texts; paths of pictures, with CLIP also texts; with --candidates A,B,C the nearest of them is found",
        answers="text, vector, with --candidates score (the cosine; for a picture the probability) and ranked",
        imports=f"{ENCODERS} without a head, sentence-transformers; ViT, DeiT, DINOv2 without classes; CLIP",
    ),
    "fill": TaskEntry(
        "find the word that is missing in a text, and tell whether a sentence follows another",
        ("bert", "encoder"),
        "two sentences about a place, in Spanish or English",
        "text files, or folders of them, or pairs of sentences: TSV, CSV, JSON, Parquet",
        "accuracy of hidden words and of the order",
        "mirada.tasks.fill.task:Fill",
        takes="texts with a gap ___, or two sentences with a tab between them",
        answers="text (the word), score, with --best or --candidates ranked",
        imports=f"{ENCODERS} with a head for words",
    ),
    "label": TaskEntry(
        "give the nodes of a graph the labels that some of them have",
        ("gat", "gatv2"),
        "papers of six topics that cite each other",
        "a graph: FILE.npz (edge_index, features, y, masks), or a folder with edges.csv, features.csv, labels.csv",
        "accuracy of the test nodes",
        "mirada.tasks.label.task:Label",
        takes="names of nodes; with --data a folder with features.csv and edges.csv of new nodes",
        answers="text (the label), score (its probability), ranked (all labels), neighbors (the weights of the edges)",
    ),
    "forecast": TaskEntry(
        "forecast the next rows of a series",
        ("transformer", "lstm-attention"),
        "prices of three companies, one of which follows another",
        "a table with a row per time step: CSV, TSV; target=, inputs=, time=, series=, lookback=, horizon=, split=",
        "MSE, MAE, beside five plain forecasts, and how many true values the intervals hold",
        "mirada.tasks.forecast.task:Forecast",
        takes="CSV files of the latest rows",
        answers="text (a CSV of the next rows), times, columns, values, low, high (the ends of intervals)",
    ),
    "transcribe": TaskEntry(
        "write down what is said in a recording",
        ("transformer", "luong"),
        "Morse code keyed by hand, in noise",
        "a folder of wav files with transcripts.tsv, .csv or .jsonl (name, text), or with a NAME.txt beside each NAME.wav",
        "word and character error rate (WER, CER)",
        "mirada.tasks.transcribe.task:Transcribe",
        takes="paths of wav files (after training on the builtin data also texts to be keyed: morse:sos)",
        answers="text, score, with --best ranked",
        imports="Whisper",
    ),
}


def entry(name: str) -> TaskEntry:
    """The entry of a task, of ours or of another package that brings one.

    >>> entry("translat")
    Traceback (most recent call last):
    ValueError: unknown task 'translat'; known: ... Did you mean 'translate'?
    """
    if name not in CATALOG:
        for point in entry_points(group=GROUP):
            if point.name == name:
                CATALOG[name] = point.load()
                return CATALOG[name]
        raise unknown("task", name, CATALOG)
    return CATALOG[name]


def describe() -> str:
    """The table that `mirada tasks` prints, with the tasks of other packages."""
    lines = []
    for point in entry_points(group=GROUP):
        entry(point.name)
    for name, item in CATALOG.items():
        lines += [
            f"{name}: {item.about}",
            f"  models   {', '.join(item.models)} (the first is the default)",
            f"  reads    {item.reads}",
            *([f"  builtin  {item.builtin}"] if item.builtin else []),
            *([f"  import   {item.imports}"] if item.imports else []),
            f"  run      {item.takes} -> {item.answers}",
            f"  metric   {item.metric}",
            f"  try      mirada {f'train {name}' if item.builtin else f'import PATH --task {name}'}",
            "",
        ]
    return "\n".join(lines[:-1])
