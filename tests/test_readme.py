"""The README tells the truth: its example prints what it says, and CI runs its commands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def test_the_ten_lines_print_what_the_readme_shows(capsys: pytest.CaptureFixture) -> None:
    lines = re.search(r"## Ten lines\n\n```python\n(.*?)```\n\n```\n(.*?)```", README, re.DOTALL)
    assert lines is not None
    exec(compile(lines[1], "README.md", "exec"), {})
    assert capsys.readouterr().out == lines[2]


def test_the_two_commands() -> None:
    first, second = (block.strip() for block in blocks("bash"))
    assert first == "pip install . && mirada train translate"
    assert second == 'pip install -e ".[test]" && python -m pytest'


def test_every_link_leads_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page}: {target}"


def test_every_part_of_the_table_can_be_imported() -> None:
    import mirada.attention.heads
    import mirada.attention.neighborhoods
    import mirada.attention.normalizers
    import mirada.attention.positions
    import mirada.attention.scores

    homes = {
        "score": mirada.attention.scores,
        "neighborhood N(i)": mirada.attention.neighborhoods,
        "position": mirada.attention.positions,
        "normalizer": mirada.attention.normalizers,
        "heads psi": mirada.attention.heads,
    }
    for factor, home in homes.items():
        row = next(line for line in README.splitlines() if line.startswith(f"| {factor} |"))
        names = re.findall(r"`([A-Z]\w+)`", row)
        assert len(names) >= 5
        for name in names:
            assert hasattr(home, name), f"{factor}: {name}"
