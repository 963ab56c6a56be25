"""How much there is to read: `python tools/size.py`, or `python tools/size.py --undocumented` for the names to document.

A line of code is one that is neither blank nor a comment nor part of a docstring. A public name is a function, a class or a
method whose dotted name has no part that begins with an underscore; it is documented if it, or what it overrides, has a
docstring.
"""

import argparse
import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "mirada"
IGNORED = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def code_lines(text: str) -> int:
    """How many lines of a source are code.

    >>> code_lines('"One."' + chr(10) * 2 + "# two" + chr(10) + "x = 1  # three" + chr(10))
    1
    """
    documented: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | Definition) and ast.get_docstring(node, clean=False) is not None:
            first = node.body[0]
            documented |= set(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in IGNORED:
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


def definitions(node: ast.Module | ast.ClassDef, name: str = "") -> Iterator[tuple[str, Definition]]:
    """The functions and classes of a module, and the methods of its classes, with their dotted names."""
    for child in node.body:
        if isinstance(child, Definition):
            yield f"{name}{child.name}", child
            if isinstance(child, ast.ClassDef):
                yield from definitions(child, f"{name}{child.name}.")


def base_names(node: ast.ClassDef) -> list[str]:
    """The last words of the classes that a class derives from."""
    found = [base.value if isinstance(base, ast.Subscript) else base for base in node.bases]
    return [base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "") for base in found]


def undocumented(trees: dict[Path, ast.Module]) -> list[str]:
    """The public names without a docstring, as file:line name."""
    classes = {n: d for tree in trees.values() for n, d in definitions(tree) if isinstance(d, ast.ClassDef)}

    def inherits(kind: str, method: str, seen: frozenset[str] = frozenset()) -> bool:
        """Whether a class or what it derives from documents a method."""
        if (kind, method) == ("Module", "extra_repr"):
            return True  # PyTorch documents it
        node = classes.get(kind)
        if node is None or kind in seen:
            return False
        own = [child for child in node.body if isinstance(child, Definition) and child.name == method]
        if any(ast.get_docstring(child) for child in own):
            return True
        return any(inherits(base, method, seen | {kind}) for base in base_names(node))

    missing = []
    for path, tree in trees.items():
        for name, node in definitions(tree):
            if any(part.startswith("_") for part in name.split(".")) or ast.get_docstring(node):
                continue
            kind, _, method = name.rpartition(".")
            if not kind or not inherits(kind, method):
                missing.append(f"{path.relative_to(SOURCE)}:{node.lineno} {name}")
    return missing


def main() -> None:
    """Print the table, or the names."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--undocumented", action="store_true", help="list the public names without a docstring")
    parser.add_argument("--source", type=Path, default=SOURCE, help="the package; another checkout's, to compare")
    given = parser.parse_args()
    globals()["SOURCE"] = given.source
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(given.source.rglob("*.py"))}
    trees = {path: ast.parse(text) for path, text in texts.items()}
    missing = undocumented(trees)
    if given.undocumented:
        print("\n".join(missing))
        return
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for path, text in texts.items():
        package = path.relative_to(given.source).parts[0]
        files[package] += 1
        lines[package] += code_lines(text)
    print(f"{'package':<12} {'files':>6} {'lines of code':>14}")
    for package in sorted(files, key=lambda name: -lines[name]):
        print(f"{package:<12} {files[package]:>6} {lines[package]:>14,}")
    print(f"{'all':<12} {sum(files.values()):>6} {sum(lines.values()):>14,}")
    functions = [n for tree in trees.values() for n, d in definitions(tree) if not isinstance(d, ast.ClassDef)]
    outside = [name for name in functions if "." not in name]
    print(f"module functions: {len(outside):,}, private {sum(name.startswith('_') for name in outside):,}")
    print(f"public names without docstring: {len(missing):,}")


if __name__ == "__main__":
    main()
