"""`mirada look`: what a model looked at, in the terminal or as a file."""

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirada.cli.arguments import Device, asked_run, check_folder, check_texts, examples, with_options
from mirada.errors import require, unknown
from mirada.files import PLOT_ENDINGS, expanded
from mirada.words import echo

if TYPE_CHECKING:
    from mirada.looking.change.changes import DropHead
    from mirada.looking.explain.relations import HeadRelation
    from mirada.looking.record import Seen
    from mirada.runs.run import Run

RECORD = ".attn"
ENDINGS = (".html", *PLOT_ENDINGS, RECORD)
MOST_SENTENCES = 500  # of a CoNLL-U file
LISTED = 12  # relations that are printed on stderr; the page shows all
MOST_NAME = 4096  # characters of a path; longer words are texts
EXAMPLES = ("black-cat",)
EPILOG = examples(
    'mirada look runs/translate "the red house"',
    'mirada look runs/translate "the red house" -o look.html',
    'mirada look runs/recognize "builtin test:7" -o look.png',
    'mirada look runs/translate "the red house" --against "the small house" -o difference.html',
    'mirada look runs/translate "the red house" --drop decoder.layers.1.cross:2',
    "mirada look look.attn --layer encoder.layers.0.self --head 1",
    "mirada look --example black-cat -o black-cat.html",
)


@with_options("beam", "candidates", "tokens", "truncate", "passage")
def look(
    places: Annotated[
        list[str] | None,
        typer.Argument(metavar="DIR INPUT | FILE.attn [FILE.attn]", help="A run and what to ask it, or what was saved."),
    ] = None,
    out: Annotated[str, typer.Option("-o", "--out", help="A page (.html), a plot (.png, .svg, .pdf) or a record (.attn).")] = "",
    layer: Annotated[str, typer.Option(help="The layer to draw; without it, the last that looks across.")] = "",
    head: Annotated[int | None, typer.Option(help="The head to draw; without it, the mean of all.")] = None,
    kind: Annotated[str, typer.Option(help="Of a plot: matrix, heads, picture or graph.")] = "",
    against: Annotated[str, typer.Option(help="Another input of the same run, or a record: both on one page.")] = "",
    drop: Annotated[
        list[str] | None, typer.Option(metavar="LAYER:HEAD", help="Answer without this head, and show what changes.")
    ] = None,
    methods: Annotated[
        bool, typer.Option("--methods", help="Rollout, gradients and ablation beside the weights, in the page.")
    ] = False,
    conllu: Annotated[str, typer.Option(metavar="FILE", help="Which heads follow the relations of these sentences.")] = "",
    example: Annotated[str, typer.Option(metavar="NAME", help="Of the lectures, without a run: black-cat.")] = "",
    language: Annotated[str, typer.Option(help="Of the page: en or es; without it, that of the browser.")] = "",
    *,
    ask: dict[str, Any],
    device: Device = "cpu",
) -> None:  # fmt: skip
    """Show what a model looked at while it answered: in the terminal, or as a page, a plot or a record."""
    ending = _check_look_out(out)
    require(language in ("", "en", "es"), f"unknown language {language!r}; known: en, es")
    require(
        head is None or ending not in (".html", RECORD), f"{out} holds all heads: leave --head out, and choose it there"
    )
    require(
        not methods or ending not in PLOT_ENDINGS,
        "--methods is shown on a page or in the terminal: give -o a name in .html",
    )
    require(not kind or ending in PLOT_ENDINGS, "--kind is for plots: give -o a name that ends in .png, .svg or .pdf")
    asked = LookRequest(tuple(places or ()), example, against, tuple(drop or ()), methods, conllu, ask, device)
    seen, other = asked.seen()
    _show(seen, other, out, ending, layer, head, kind, language)
    if other is not None and not out:
        echo(f"\n{other.text(layer, head)}", styled=True)


@dataclass(frozen=True)
class LookRequest:
    """What is to be looked at, and what it is compared with."""

    places: tuple[str, ...]
    example: str
    against: str
    drop: tuple[str, ...]
    methods: bool
    conllu: str
    ask: Mapping[str, Any]
    device: str

    def seen(self) -> "tuple[Seen, Seen | None]":
        """What was seen; and the other one, if two are compared."""
        records = [place for place in self.places if _is_record(place)]
        if not self.example and not records:
            return self.of_run()
        given = {"--drop": self.drop, "--methods": self.methods, "--conllu": self.conllu}
        useless = [*(name for name, value in given.items() if value), *(f"--{name}" for name in self.ask)]
        require(not useless, f"{', '.join(useless)} needs a model: give the folder of a run and an input")
        return self.of_example() if self.example else self.of_records(records)

    def of_example(self) -> "tuple[Seen, Seen | None]":
        """An example of the lectures; and a record, if it is compared with one."""
        require(not self.places, f"--example {self.example} takes no further input")
        if self.example not in (*EXAMPLES, "black_cat", "negro"):  # the last is its old name
            raise unknown("example", self.example, EXAMPLES)
        from mirada.looking.black_cat import black_cat

        return black_cat(), _loaded(self.against) if self.against else None

    def of_records(self, records: Sequence[str]) -> "tuple[Seen, Seen | None]":
        """One record, or two that are compared."""
        most = 1 if self.against else 2
        require(
            len(records) == len(self.places) <= most,
            "give one record, or two to see their difference; or the folder of a run and one input",
        )
        other = self.against or (records[1] if len(records) > 1 else "")
        require(not other or _is_record(other), f"{other}: a record is compared with a record (.attn)")
        return _loaded(records[0]), _loaded(other) if other else None

    def of_run(self) -> "tuple[Seen, Seen | None]":
        """Ask a run, and look; then again with another input or without some heads."""
        require(
            len(self.places) > 0,
            'give the folder of a run and an input, or a record: mirada look runs/translate "the red house"',
        )
        folder, *inputs = self.places
        check_folder("look", folder, inputs)
        require(
            len(inputs) == 1,
            f"look takes one input: got {len(inputs)}. A text of several words stands in quotes: "
            f"{shlex.join(['mirada', 'look', folder, ' '.join(inputs) or 'the red house'])}",
        )
        require(
            not (self.drop and self.against), "--drop and --against both say what to compare with: give one of them"
        )
        changes = _dropped(self.drop)
        run = self.run(folder, inputs)
        seen = _ask_and_look(run, inputs[0], self.methods)
        if self.conllu:
            seen.relations = tuple(_relations(run, self.conllu))
        if changes:
            return seen, _without_heads(run, inputs[0], changes, self.methods)
        if not self.against or _is_record(self.against):
            return seen, _loaded(self.against) if self.against else None
        return seen, _ask_and_look(run, self.against, self.methods)

    def run(self, folder: str, inputs: Sequence[str]) -> "Run":
        """The run, which knows how answers are wanted."""
        run = asked_run(folder, self.device, self.ask)
        check_texts(run, folder, inputs)
        return run


def _is_record(place: str) -> bool:
    """Whether a place is a record by its name, or an archive whatever its name: downloads are renamed."""
    import zipfile

    path = os.path.expanduser(place)
    named = "\0" not in path and len(path) < MOST_NAME
    return place.lower().endswith(RECORD) or (named and os.path.isfile(path) and zipfile.is_zipfile(path))


def _loaded(place: str) -> "Seen":
    from mirada.looking.record import Seen

    return Seen.load(os.path.expanduser(place))


def _ask_and_look(run: "Run", given: str, methods: bool) -> "Seen":
    """The attention of the answer to one input; a run that has no attention says so."""
    (answer,) = run.answers_in_place([given])
    require(not answer.error, answer.error)
    return answer.look(methods)


def _relations(run: "Run", place: str) -> "list[HeadRelation]":
    """Which heads follow the relations of the sentences of a file; those that the run cannot read are counted."""
    from mirada.data.record import show as problems_of
    from mirada.looking.explain.alignment import sentence_relations
    from mirada.looking.explain.relations import best_heads, read_conllu

    treebank = read_conllu(place)
    require(
        bool(treebank.records), problems_of(treebank.problems, 3) if treebank.problems else f"{place} has no sentences"
    )
    sentences = [record.value for record in treebank.records[:MOST_SENTENCES]]
    pairs, bad, reason = [], len(treebank.problems), ""
    for sentence, answer in zip(sentences, run.answers_in_place([one.text for one in sentences]), strict=True):
        if answer.error or answer.replay is None:
            bad, reason = bad + 1, reason or answer.error
        else:
            pairs.append((sentence, answer.look()))
    require(bool(pairs), f"{place}: this run can read none of the sentences. {reason}")
    table = sentence_relations(pairs)
    require(
        bool(table),
        f"no layer of this run looks from the words of a sentence at its words: {place} says nothing about it",
    )
    left = len(treebank.records) - len(sentences)
    echo(f"{len(pairs):,} sentences of {place} read, {bad:,} not, {left:,} left out", err=True)
    for row in best_heads(table)[:LISTED]:
        echo(f"{row.relation:<20} {row.stream} head {row.head}: {row.accuracy:.0%} "
                   f"({row.against}: {row.baseline:.0%}; {row.count:,} times)", err=True)  # fmt: skip
    return table


def _dropped(spelled: Sequence[str]) -> "dict[str, list[DropHead]]":
    """The heads to leave out, by layer."""
    if not spelled:
        return {}
    from mirada.looking.change.changes import DropHead

    heads: dict[str, list[DropHead]] = {}
    for text in spelled:
        layer, colon, number = text.rpartition(":")
        good = bool(colon) and number.isascii() and number.isdecimal()
        require(good, f"--drop is spelled LAYER:HEAD, such as decoder.layers.0.cross:2: got {text!r}")
        heads.setdefault(layer, []).append(DropHead(int(number)))
    return heads


def _without_heads(run: "Run", given: str, changes: "dict[str, list[DropHead]]", methods: bool) -> "Seen":
    """The same input answered again, without some heads."""
    from mirada.looking.change.intervene import intervene

    with intervene(run.model, {layer: list(some) for layer, some in changes.items()}):
        seen = _ask_and_look(run, given, methods)
    changed = [{"layer": layer, "do": "DropHead", "head": one.head} for layer, some in changes.items() for one in some]
    return seen.labelled(replace(seen.labels, changes=tuple(changed)))


def _show(
    seen: "Seen", other: "Seen | None", out: str, ending: str, layer: str, head: int | None, kind: str, language: str
) -> None:
    """Draw in the terminal, or write the file."""
    if not out:
        echo(seen.text(layer, head), styled=True)  # the drawing itself knows which colors there are
        for one in seen.methods.agreement if seen.methods else ():
            echo(f"{one.a} and {one.b} agree: {_agreed(one.spearman)}, the same first place in {_agreed(one.top)}")
        return
    require(
        other is None or ending == ".html",
        f"{out}: two are compared on a page: give -o a name that ends in .html, or leave it out",
    )
    path = os.path.expanduser(out)
    layers = [seen.layer(layer)] if layer else None
    if ending == ".html":
        seen.page(path, other, language, layers)
    elif ending == RECORD:
        seen.save(path, layers=layers)
    else:
        seen.plot(path, layer, head, kind)
    echo(f"written to {out}", err=True)


def _agreed(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.2f}"


def _check_look_out(out: str) -> str:
    """The ending of the file to write; what cannot be written is refused before anything is computed."""
    if not out:
        return ""
    ending = os.path.splitext(out)[1].lower()
    if ending not in ENDINGS:
        raise ValueError(f"{out}: {unknown('format', ending, ENDINGS)}")
    path = expanded(out)
    require(path.parent.is_dir(), f"{out}: there is no folder {path.parent}. Make it first.")
    require(not path.is_dir(), f"{out} is a folder: give the name of a file in it")
    return ending
