"""The pages tell the truth: what they name is there, what they show runs, and they fit a screen."""

import re
from pathlib import Path

import pytest

from mirada.runs.ask import run_options

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "mirada"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
EVERY_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
WIDEST = 120  # characters of a line
MOST_COLUMNS = 5
HOMES = (ROOT, PACKAGE, ROOT / "docs")  # where the paths of a page may begin
ENDINGS = (".py", ".c", ".h", ".md", ".json", ".png", ".toml", "/")
WRITTEN_BY_RUNS = ("config.json", "tokenizer.json", "generation_config.json", "origin/")


def text_of(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def paths_of(text: str) -> set[str]:
    """What looks like the path of a file or folder of ours: in backticks, or source with its folder anywhere."""
    words = re.findall(r"`([\w./-]+)(?:::\w+)?`", text)
    in_backticks = {word for word in words if word.endswith(ENDINGS) and word not in WRITTEN_BY_RUNS}
    return in_backticks | set(re.findall(r"(?<![\w./-])(?:\w+/)+\w+\.(?:py|c|h)\b", text))


@EVERY_PAGE
def test_lines_fit_a_screen(page: Path) -> None:
    wide = [f"{n}: {line}" for n, line in enumerate(text_of(page).splitlines(), 1) if len(line) > WIDEST]
    assert wide == []


@EVERY_PAGE
def test_tables_fit_a_screen(page: Path) -> None:
    rows = [line for line in text_of(page).splitlines() if line.startswith("|")]
    assert [row for row in rows if len(re.findall(r"(?<!\\)\|", row)) - 1 > MOST_COLUMNS] == []


@EVERY_PAGE
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text_of(page)):
        assert (page.parent / target).exists(), target


@EVERY_PAGE
def test_every_path_exists(page: Path) -> None:
    text = re.sub(r"\*\*planned\*\*[^;]*?(?=;|\n\s*-|\n\n)", "", text_of(page))
    missing = [path for path in paths_of(text) if not any((home / path).exists() for home in HOMES)]
    assert missing == []


def test_there_is_something_to_check() -> None:
    assert len(PAGES) > 15
    assert len(paths_of(text_of(ROOT / "docs" / "architecture.md"))) > 20


def test_the_map_names_every_package() -> None:
    text = text_of(ROOT / "docs" / "architecture.md")
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert {name for name in packages if f"{name}/" not in text} == set()


def test_every_option_of_an_answer_is_documented_for_the_api() -> None:
    page = (ROOT / "docs" / "serving.md").read_text(encoding="utf-8")
    assert [name for name in run_options() if not re.search(rf"\b{name}\b", page)] == []
