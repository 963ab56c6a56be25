"""Our decoding over that of others: the same random weights, exactly 25 tokens, as ratios of times in one process.

    python benchmarks/decoding.py               every table (about three minutes on two cores)
    python benchmarks/decoding.py translate     one of them: translate, write, llama, large (GPT-2 of 124 million weights)
    python benchmarks/decoding.py --threads 1   on one thread; CTranslate2 then has one worker
    python benchmarks/decoding.py translate large --precision int8   both in int8 (bfloat16: CTranslate2 in float32)

The ratio is peer / ours, so larger is better. Peers: pip install transformers ctranslate2. Two more rows show what the engine is
worth: its steps in plain PyTorch (as without a C compiler), and those of the model itself (as inside `look`). A further row is
our own decoding that also keeps the weights of all heads of a layer for every token (`engine.watched`): what attention costs.
"""

import argparse
import tempfile
from collections.abc import Callable
from typing import Any
from unittest import mock

import model_peers as peers
import torch
from ratios import HEADER, race
from torch import Tensor

from mirada import engine
from mirada.decoding.beam import Beam
from mirada.decoding.greedy import Greedy
from mirada.decoding.search import Forbid, Search
from mirada.hub import gpt2, llama, marian
from mirada.models.gpt import GPT
from mirada.models.transformer import Transformer

STEPS, VOCAB = 25, 9000
Call = Callable[[], list[list[int]]]


def plain(model: Transformer | GPT) -> engine.Engine:
    """An engine in plain PyTorch."""
    with mock.patch("mirada.engine.stepper.serves", return_value=False):
        return engine.fast(model)


def sentences(batch: int) -> tuple[Tensor, Tensor]:
    """Random sources of 20 to 25 words, and their lengths."""
    random = torch.Generator().manual_seed(batch)
    lengths = torch.randint(20, 26, (batch,), generator=random)
    source = torch.randint(2, VOCAB - 1, (batch, int(lengths.max())), generator=random)
    return source.masked_fill_(torch.arange(source.shape[1]) >= lengths[:, None], VOCAB - 1), lengths


def ours_from(model: Any, search: Search, source: Tensor, lengths: Tensor) -> Call:
    """Read, and write as many tokens as all do: never the end, never padding."""
    first, rules = torch.full((len(source),), VOCAB - 1), [Forbid([0, VOCAB - 1])]

    def call() -> list[list[int]]:
        with torch.inference_mode():
            state = model.start(model.encode(source, lengths))
            return [best[0].tokens for best in search(model, state, first, None, STEPS, rules=rules)]

    return call


def table(title: str, ours: Call, others: dict[str, Call], rounds: int) -> None:
    """One table: every peer's time over ours, and whether it writes the same."""
    threads = torch.get_num_threads()
    print(f"\n## {title}\n")
    print(HEADER, flush=True)
    texts = ours()
    for name, other in others.items():
        pairs = [pair for mine, theirs in zip(texts, other(), strict=True) for pair in zip(mine, theirs, strict=True)]
        same = sum(mine == theirs for mine, theirs in pairs) / len(pairs)
        print(race(other, ours, rounds, warm_up=2).row(f"{name} / ours ({same:.0%} of the tokens agree)"), flush=True)
        assert torch.get_num_threads() == threads, f"{name} changed the number of threads"


def translate(rounds: int, threads: int, precision: str) -> None:
    """Encoder-decoder, greedily and with a beam, one sentence and many."""
    theirs = peers.marian_writer(VOCAB, width=256, heads=4, hidden=1024, depth=3)
    model = marian.load(theirs.config.to_dict(), theirs.state_dict())
    fast = engine.fast(model, precision).stepper
    steppers = (fast, plain(model).stepper, model, engine.watched(fast, {"decoder.layers.2.cross": []}))
    with tempfile.TemporaryDirectory() as folder:
        peers.save_for_ctranslate2(theirs, folder)
        for batch, beam in ((1, 1), (1, 4), (32, 1), (32, 4)):
            source, lengths = sentences(batch)
            search = Greedy() if beam == 1 else Beam(size=beam)
            ours, slower, modules, watched = (ours_from(x, search, source, lengths) for x in steppers)
            workers = min(threads, 2) if batch > 1 else 1
            contestants = {
                "Hugging Face Marian": peers.marian_call(theirs, source, lengths, beam, STEPS),
                "CTranslate2": peers.ctranslate2_call(
                    folder, source, lengths, beam, STEPS, workers, theirs_in(precision)
                ),
                "ours with the rows of a layer": watched,
                "ours in plain PyTorch": slower,
                "ours through the modules": modules,
            }
            if precision != "float32":
                contestants = {name: contestants[name] for name in ("CTranslate2", "ours with the rows of a layer")}
            title = f"{precision}, width 256, 3 + 3 layers, vocabulary {VOCAB}, batch {batch}, beam {beam}, {threads} threads"
            table(title, ours, contestants, rounds if batch == 1 else max(3, rounds // 3))


def theirs_in(precision: str) -> str:
    """What CTranslate2 computes with: it has no bfloat16 on every CPU."""
    return precision if precision == "int8" else "float32"


def large(rounds: int, threads: int, precision: str) -> None:
    """GPT-2 of 124 million weights from one token on, and its first token after a prompt of 512."""
    theirs = peers.gpt2_writer(50257, width=768, heads=12, depth=12, length=1024)
    stepper: Any = engine.fast(gpt2.load(theirs.config.to_dict(), theirs.state_dict()), precision).stepper
    prompt = torch.randint(1, 50257, (1, 512), generator=torch.Generator().manual_seed(0))

    def ours() -> list[list[int]]:
        [[best]] = Greedy()(stepper, stepper.start(1), torch.tensor([0]), None, 12, rules=[Forbid([0])])
        return [best.tokens]

    @torch.inference_mode()
    def first() -> list[list[int]]:
        stepper.decoder.prompts.forget()  # it would not read the same prompt again
        return [stepper.step(prompt, stepper.start(1))[0].argmax(-1).tolist()]

    @torch.inference_mode()
    def their_first() -> list[list[int]]:
        return theirs(prompt, logits_to_keep=1).logits[0].argmax(-1, keepdim=True).tolist()

    with tempfile.TemporaryDirectory() as folder:
        theirs_too = peers.ctranslate2_gpt2(theirs, folder, theirs_in(precision))
        others = {"CTranslate2": lambda: [theirs_too([0], 12)], "Hugging Face": peers.gpt2_call(theirs, 12)}
        table(f"GPT-2 124M, {precision}, 12 tokens, {threads} threads", ours, others, max(5, rounds // 2))
        others = {"CTranslate2": lambda: [theirs_too(prompt[0].tolist(), 1)], "Hugging Face": their_first}
        table(f"GPT-2 124M, {precision}, first token of 512, {threads} threads", first, others, max(3, rounds // 5))


def write(rounds: int, threads: int, precision: str) -> None:
    """A GPT that continues from one token."""
    theirs = peers.gpt2_writer(VOCAB, width=384, heads=6, depth=6, length=256)
    continued("GPT", theirs, gpt2.load(theirs.config.to_dict(), theirs.state_dict()), rounds, threads)


def llamas(rounds: int, threads: int, precision: str) -> None:
    """The same in Llama's form: rotary, grouped, gated."""
    theirs = peers.llama_writer(VOCAB, width=384, heads=6, groups=2, depth=6, length=256)
    continued("Llama", theirs, llama.load(theirs.config.to_dict(), theirs.state_dict()), rounds, threads)


def continued(name: str, theirs: Any, model: GPT, rounds: int, threads: int) -> None:
    """A table of continuations from one token."""
    steps = 4 * STEPS

    def writer(stepper: Any) -> Call:
        def call() -> list[list[int]]:
            [[best]] = Greedy()(stepper, stepper.start(1), torch.tensor([0]), None, steps, rules=[Forbid([0])])
            return [best.tokens]

        return call

    fast = engine.fast(model).stepper
    watched = writer(engine.watched(fast, {"decoder.layers.5.self": []}))
    ours, slower, modules = (writer(x) for x in (fast, plain(model).stepper, model))
    contestants = {
        f"Hugging Face {name}": peers.gpt2_call(theirs, steps),
        "ours with the rows of a layer": watched,
        "ours in plain PyTorch": slower,
        "ours through the modules": modules,
    }
    table(
        f"{name}, width 384, depth 6, vocabulary {VOCAB}, {steps} tokens, {threads} threads", ours, contestants, rounds
    )


TABLES = {"translate": translate, "write": write, "llama": llamas, "large": large}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", choices=[[], *TABLES], help="which tables (default: all)")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of single sentences; batches take a third")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="threads of PyTorch")
    parser.add_argument("--precision", default="float32", help="of translate and large: float32, bfloat16 or int8")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    for name in arguments.tables or TABLES:
        TABLES[name](arguments.rounds, arguments.threads, arguments.precision)
