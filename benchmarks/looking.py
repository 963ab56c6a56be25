"""What looking costs: `python benchmarks/looking.py` prints the price of a capture, the sizes of files and pages, and how
fast a page opens and changes heads in headless Chromium (skipped where there is none).

A GPT of 12 layers with 12 heads over 256 and 1,024 tokens. Its projections are scaled up, so that its heads choose as those
of trained models do; the mean entropy is printed beside what even attention would have.
"""

import argparse
import math
import platform
import resource
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import torch
from ratios import HEADER, race

from mirada import Causal, Window, attend, look
from mirada.attention.neighborhoods import Neighborhood
from mirada.drawing.viewer.page import attention_page
from mirada.looking.labels import Labels, TextLabels
from mirada.looking.record import Seen
from mirada.looking.reduce import ColumnSums, Distance, Entropy, Sink, TopK
from mirada.models.gpt import GPT, GPTConfig

LAYERS, HEADS, WIDTH, VOCAB = 12, 12, 768, 5000
SHARP = 3.0  # how much the queries and keys of random weights are scaled up
LIMITS = {256: 7e6, 1024: 55e6}  # bytes of a page
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


def model(length: int) -> GPT:
    torch.manual_seed(0)
    config = GPTConfig(
        vocab=VOCAB, width=WIDTH, heads=HEADS, hidden=4 * WIDTH, depth=LAYERS, length=length, dropout=0.0
    )
    made = GPT(config).eval()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            if name.endswith((".query.weight", ".key.weight")):
                parameter.mul_(SHARP)
    return made


@torch.no_grad()
def seen_by(gpt: GPT, length: int) -> Seen:
    """A text of so many words, looked at."""
    tokens = torch.randint(VOCAB, (1, length), generator=torch.Generator().manual_seed(1))
    with look(gpt) as seen:
        gpt(tokens)
    words = tuple(f"word{token}" for token in tokens[0].tolist())
    return seen.labelled(Labels({"text": TextLabels(words)}, {"*": ("text", "text")}))


def capture(rounds: int) -> None:
    """A forward pass inside `look` over one outside."""
    print(HEADER)
    for length in LIMITS:
        gpt, tokens = model(length), torch.randint(VOCAB, (1, length))

        def plain(gpt: GPT = gpt, tokens: torch.Tensor = tokens) -> object:
            with torch.no_grad():
                return gpt(tokens)

        def watched(gpt: GPT = gpt, tokens: torch.Tensor = tokens) -> object:
            with torch.no_grad(), look(gpt):
                return gpt(tokens)

        print(race(watched, plain, rounds).row(f"forward inside look, {length:,} tokens"))


def reductions(rounds: int) -> None:
    """Statistics of all heads over the forward pass that made them: one layer of 8 heads of 64, no projections."""
    print("\n" + HEADER)
    cases = [(4096, Causal(), 3), (12288, Causal(), 4), (8192, Window(256), 5)]
    for length, where, limit in cases:
        q, k, v = torch.randn(3, 1, 8, length, 64, generator=torch.Generator().manual_seed(0))
        with torch.no_grad(), look() as seen:
            attend(q, k, v, where=where)
        call = seen["attend"]

        def forward(parts: tuple = (q, k, v), where: Neighborhood = where) -> object:
            with torch.no_grad():
                return attend(*parts, where=where)

        few = max(3, rounds * 4096**2 // length**2)
        name = f"of {length:,} tokens, {where}, at most {limit}"
        print(race(call.statistics, forward, few, warm_up=1).row(f"statistics {name}"))
        print(
            race(lambda call=call: call.reduce(Entropy(), TopK(8), Sink()), forward, few, warm_up=1).row(
                f"reductions {name}"
            )
        )


def memory(length: int) -> None:
    """The most memory that reductions of a long layer take, beside the recorded queries and keys."""
    q, k, v = torch.randn(3, 1, 8, length, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad(), look() as seen:
        attend(q, k, v, where=Causal())
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    seen["attend"].reduce(Entropy(), TopK(8), ColumnSums(), Distance(), Sink())
    after, seconds = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter() - began
    print(
        f"\n{length:,} tokens, 8 heads: {after / 1e6:.2f} GB in all, {(after - before) / 1e6:.2f} more, {seconds:.0f} s"
    )


def pages(folder: Path) -> dict[int, Path]:
    """The pages of both texts, with their sizes."""
    print("\n| tokens | entropy (even) | `.attn`, MB | page, MB | at most | written in, s |\n|---|---|---|---|---|---|")
    written = {}
    for length, limit in LIMITS.items():
        seen = seen_by(model(length), length)
        began = time.perf_counter()
        content = seen.to_bytes()
        page = attention_page([content], f"{length} tokens")
        seconds = time.perf_counter() - began
        weights = seen[seen.names[0]].weights()
        entropy = float(-(weights * weights.clamp(min=1e-30).log()).sum(-1).mean())
        even = sum(math.log(n) for n in range(1, length + 1)) / length
        written[length] = folder / f"{length}.html"
        written[length].write_text(page, encoding="utf-8")
        size = written[length].stat().st_size
        print(
            f"| {length:,} | {entropy:.2f} ({even:.2f}) | {len(content) / 1e6:.1f} | {size / 1e6:.1f} "
            f"| {limit / 1e6:.0f} | {seconds:.1f} |"
        )
    return written


def in_a_browser(written: dict[int, Path], rounds: int) -> None:
    """From the first byte to the first paint, and from a key to the next head."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("\nno chromium: pages were not opened")
        return
    from playwright.sync_api import sync_playwright

    print("\n| tokens | first paint, ms | ready, ms | next head, ms (worst) |\n|---|---|---|---|")
    with sync_playwright() as playwright:
        program = playwright.chromium.launch(executable_path=browser, args=list(FLAGS))
        for length, path in written.items():
            paints, readies, switches = [], [], []
            for _ in range(rounds):
                page = program.new_page()
                began = time.perf_counter()
                page.goto(path.as_uri(), wait_until="commit")
                while not page.evaluate(
                    "!!(window.mirada && window.mirada.ready)"
                ):  # its policy forbids to wait inside it
                    time.sleep(0.02)
                page.evaluate("window.mirada.ready.then(() => 0)")
                readies.append(1e3 * (time.perf_counter() - began))
                paints.append(
                    page.evaluate("performance.getEntriesByName('first-contentful-paint')[0]?.startTime ?? NaN")
                )
                for _ in range(6):
                    switches.append(page.evaluate(SWITCH))
                page.close()
            print(
                f"| {length:,} | {statistics.median(paints):.0f} | {statistics.median(readies):.0f} "
                f"| {statistics.median(switches):.0f} ({max(switches):.0f}) |"
            )
        program.close()


SWITCH = """() => new Promise(done => {
  const began = performance.now();
  document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}));
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
})"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--only", choices=["reductions", "memory"], help="this part alone")
    parser.add_argument("--tokens", type=int, default=100_000, help="of --only memory")
    asked = parser.parse_args()
    rounds = asked.rounds
    print(
        f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads, torch {torch.__version__}\n"
    )
    if asked.only == "memory":
        memory(asked.tokens)
        return
    reductions(rounds)
    if asked.only == "reductions":
        return
    capture(rounds)
    with tempfile.TemporaryDirectory() as folder:
        in_a_browser(pages(Path(folder)), max(1, rounds // 3))


if __name__ == "__main__":
    main()
