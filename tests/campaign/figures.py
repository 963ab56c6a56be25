"""Figures that add up over many starts: what was tried, how it ended, and what must not have happened."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

FILE = Path("campaign.json")


class Figures:
    """The counts of one part, by kind, with the seed to go on with."""

    def __init__(self, part: str, path: Path = FILE) -> None:
        self.part, self.path = part, path
        told: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        mine = told.get(part, {})
        self.seed, self.counts = mine.get("seed", 0), Counter(mine.get("counts", {}))
        self.failures: list[Any] = mine.get("failures", [])

    def add(self, kind: str, outcome: str, failure: Any = None) -> None:
        """One case of a kind."""
        self.counts[f"{kind}: {outcome}"] += 1
        if failure is not None:
            self.failures.append([self.seed, kind, failure])

    def save(self) -> None:
        told = json.loads(self.path.read_text()) if self.path.exists() else {}
        told[self.part] = {"seed": self.seed, "counts": dict(sorted(self.counts.items())), "failures": self.failures}
        self.path.write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")

    @property
    def tried(self) -> int:
        return sum(self.counts.values())

    def __str__(self) -> str:
        lines = [f"{self.part}: {self.tried:,} tried, {self.tried - len(self.failures):,} survived, seed {self.seed}"]
        lines += [f"  {count:7,}  {name}" for name, count in sorted(self.counts.items())]
        return "\n".join([*lines, *(f"  FAILED {failure}" for failure in self.failures[:20])])
