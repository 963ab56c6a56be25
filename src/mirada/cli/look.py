"""`mirada look`: the attention of a model, in the terminal or as a file."""

import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mirada.cli.arguments import Device, asked_run, check_folder, check_texts, examples, with_options
from mirada.errors import require, unknown
from mirada.files import PLOT_ENDINGS, ending_to_write
from mirada.words import echo

if TYPE_CHECKING:
    from mirada.looking.change.changes import DropHead
    from mirada.looking.explain.relations import HeadRelation
    from mirada.looking.record import Seen
    from mirada.runs.run import Run

RECORD = ".attn"
ENDINGS = (".html", *PLOT_ENDINGS, RECORD)
MOST_SENTENCES = 500  # of a CoNLL-U file
LISTED = 12  # relations that are printed; the page shows all
MOST_NAME = 4096  # characters of a path; longer arguments are texts
EXAMPLES = ("black-cat",)
READERS = {  # what decided an answer, where that is not the attention alone
    "words": "a linear model of the words, not by the attention that is shown",
    "ridge": "ridge regression, not by the attention that is shown",
    "both": "attention and a plain model together",
}
EPILOG = examples(
    'mirada look runs/translate "the red house"',
    'mirada look runs/translate "the red house" -o look.html',
    'mirada look runs/recognize "builtin test:7" -o look.png',
    'mirada look runs/translate "the red house" --against "the small house" -o difference.html',
    'mirada look runs/translate "the red house" --drop decoder.layers.1.cross:2',
    "mirada look look.attn --layer encoder.layers.0.self --head 1",
    "mirada look --example black-cat -o black-cat.html",
)


@with_options("beam", "candidates", "tokens", "truncate", "passage", "source", "target", "prefix")
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
        bool, typer.Option("--methods", help="Rollout, gradients and ablation next to the weights, in the page.")
    ] = False,
    conllu: Annotated[str, typer.Option(metavar="FILE", help="Which heads follow the relations of these sentences.")] = "",
    example: Annotated[str, typer.Option(metavar="NAME", help="Of the lectures, without a run: black-cat.")] = "",
    language: Annotated[str, typer.Option(help="Of the page: en or es; without it, that of the browser.")] = "",
    *,
    ask: dict[str, Any],
    device: Device = "cpu",
) -> None:  # fmt: skip
    """Show the attention behind an answer: in the terminal, or as a page, a plot or a record."""
    ending = ending_to_write(out, ENDINGS) if out else ""
    require(language in ("", "en", "es"), f"unknown language {language!r}; known: en, es")
    all_heads = ending in (".html", RECORD)
    require(head is None or not all_heads, f"{out} holds all heads: leave --head out, and choose it there")
    plotted = ending in PLOT_ENDINGS
    require(not (methods and plotted), "--methods is shown on a page or in the terminal: give -o a name in .html")
    require(not kind or plotted, "--kind is for plots: give -o a name that ends in .png, .svg or .pdf")
    places, records = places or [], [place for place in places or [] if _is_record(place)]
    if example or records:
        given = {"--drop": drop, "--methods": methods, "--conllu": conllu, **{f"--{name}": True for name in ask}}
        useless = [name for name, value in given.items() if value]
        require(not useless, f"{', '.join(useless)} needs a model: give the folder of a run and an input")
        seen, other = _example_seen(example, places, against) if example else _records_seen(records, places, against)
    else:
        seen, other = _run_seen(places, against, drop or [], methods, conllu, ask, device)
    if out:
        _write(seen, other, out, ending, layer, head, kind, language)
        return
    echo(seen.text(layer, head), styled=True)  # the drawing depends on the colors of the terminal
    for one in seen.methods.agreement if seen.methods else ():
        echo(f"{one.a} and {one.b} agree: {_agreed(one.spearman)}, the same first place in {_agreed(one.top)}")
    if other is not None:
        echo(f"\n{other.text(layer, head)}", styled=True)


def _example_seen(example: str, places: Sequence[str], against: str) -> "tuple[Seen, Seen | None]":
    """An example of the lectures, and the record it is compared with."""
    require(not places, f"--example {example} takes no further input")
    if example not in (*EXAMPLES, "black_cat", "negro"):  # the last is its old name
        raise unknown("example", example, EXAMPLES)
    from mirada.looking.black_cat import black_cat

    return black_cat(), _loaded(against) if against else None


def _records_seen(records: Sequence[str], places: Sequence[str], against: str) -> "tuple[Seen, Seen | None]":
    """A record, and the one it is compared with."""
    few = len(records) == len(places) <= (1 if against else 2)
    require(few, "give one record, or two to see their difference; or the folder of a run and one input")
    other = against or (records[1] if len(records) > 1 else "")
    require(not other or _is_record(other), f"{other}: a record is compared with a record (.attn)")
    return _loaded(records[0]), _loaded(other) if other else None


def _run_seen(
    places: list[str], against: str, drop: list[str], methods: bool, conllu: str, ask: dict[str, Any], device: str
) -> "tuple[Seen, Seen | None]":
    """The attention of an answer, and that of another input or without some heads, if asked for."""
    hint = 'give the folder of a run and an input, or a record: mirada look runs/translate "the red house"'
    require(len(places) > 0, hint)
    folder, *inputs = places
    check_folder("look", folder, inputs)
    line = shlex.join(["mirada", "look", folder, " ".join(inputs) or "the red house"])
    hint = f"look takes one input: got {len(inputs)}. Put a text of several words in quotes: {line}"
    require(len(inputs) == 1, hint)
    require(not (drop and against), "--drop and --against both say what to compare with: give one of them")
    changes = _dropped(drop)
    run = asked_run(folder, device, ask)
    check_texts(run, folder, inputs)
    seen = _ask_and_look(run, inputs[0], methods)
    if conllu:
        seen.relations = tuple(_relations(run, conllu))
    if changes:
        from mirada.looking.change.changes import changes_as_json
        from mirada.looking.change.intervene import intervene

        with intervene(run.model, {layer: list(some) for layer, some in changes.items()}):
            other = _ask_and_look(run, inputs[0], methods)
        return seen, other.labelled(replace(other.labels, changes=tuple(changes_as_json(changes))))
    if against and not _is_record(against):
        return seen, _ask_and_look(run, against, methods)
    return seen, _loaded(against) if against else None


def _is_record(place: str) -> bool:
    """Whether a path is a record, by its name or because it is a zip archive: downloads get renamed."""
    import zipfile

    path = os.path.expanduser(place)
    named = "\0" not in path and len(path) < MOST_NAME
    return place.lower().endswith(RECORD) or (named and os.path.isfile(path) and zipfile.is_zipfile(path))


def _loaded(place: str) -> "Seen":
    from mirada.looking.record import Seen

    return Seen.load(os.path.expanduser(place))


def _ask_and_look(run: "Run", given: str, methods: bool) -> "Seen":
    """The attention behind the answer to one input; an error if the model has none."""
    (answer,) = run.answers_in_place([given])
    require(not answer.error, answer.error)
    decided = READERS.get(answer.more.get("reader", ""), "")
    for line in (answer.note, decided and f"decided by {decided}"):
        if line:
            echo(f"mirada: {line}", err=True)
    return answer.look(methods)


def _relations(run: "Run", place: str) -> "list[HeadRelation]":
    """Which heads follow the dependency relations in the sentences of a file; sentences that the run cannot read are counted."""
    from mirada.data.record import show as problems_of
    from mirada.looking.explain.alignment import sentence_relations
    from mirada.looking.explain.relations import best_heads, read_conllu

    treebank = read_conllu(place)
    reason = problems_of(treebank.problems, 3) if treebank.problems else f"{place} has no sentences"
    require(bool(treebank.records), reason)
    sentences = [record.value for record in treebank.records[:MOST_SENTENCES]]
    pairs, bad, reason = [], len(treebank.problems), ""
    for sentence, answer in zip(sentences, run.answers_in_place([one.text for one in sentences]), strict=True):
        if answer.error or answer.replay is None:
            bad, reason = bad + 1, reason or answer.error
        else:
            pairs.append((sentence, answer.look()))
    require(bool(pairs), f"{place}: this run can read none of the sentences. {reason}")
    table = sentence_relations(pairs)
    reason = f"no layer of this run looks from the words of a sentence at its words: {place} says nothing about it"
    require(bool(table), reason)
    unused = len(treebank.records) - len(sentences)
    echo(f"{len(pairs):,} sentences of {place} read, {bad:,} unreadable, {unused:,} skipped", err=True)
    for row in best_heads(table)[:LISTED]:
        echo(f"{row.relation:<20} {row.stream} head {row.head}: {row.accuracy:.0%} "
                   f"({row.against}: {row.baseline:.0%}; {row.count:,} times)", err=True)  # fmt: skip
    return table


def _dropped(spelled: Sequence[str]) -> "dict[str, list[DropHead]]":
    """The heads to drop, by layer."""
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


def _write(
    seen: "Seen", other: "Seen | None", out: str, ending: str, layer: str, head: int | None, kind: str, language: str
) -> None:
    """Write the page, the record or the plot."""
    one = other is None or ending == ".html"
    require(one, f"{out}: two are compared on a page: give -o a name that ends in .html, or leave it out")
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
