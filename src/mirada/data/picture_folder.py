"""The pictures below a folder."""

import os
from difflib import get_close_matches
from pathlib import Path

from mirada.data.picture_file import ENDINGS

HINTS = 5  # missing pictures for which a similar name is looked for: among many names that takes long


class PictureFolder:
    """The pictures below a folder, found by the names that a captions file has for them."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.paths: dict[str, list[str]] = {}  # by relative path, by name, by name without ending
        self.pictures: list[str] = []
        self.missing = 0
        for home, inner, names in os.walk(folder):
            inner.sort()  # the order of a disk is nobody's
            for name in sorted(names):
                if name.lower().endswith(ENDINGS):
                    path = os.path.normpath(os.path.join(home, name))
                    self.pictures.append(path)
                    inside = os.path.relpath(path, folder).replace(os.sep, "/")
                    for key in {inside, name, os.path.splitext(inside)[0], os.path.splitext(name)[0]}:
                        self.paths.setdefault(key, []).append(path)

    def find(self, name: str) -> tuple[str, str]:
        """The path of a picture, or what is wrong with its name."""
        direct = os.path.normpath(os.path.join(self.folder, name))
        if os.path.isfile(direct):
            return direct, ""
        found = self.paths.get(name.removeprefix("./").replace(os.sep, "/"), [])
        if len(found) == 1:
            return found[0], ""
        if found:
            return "", f"several pictures have this name: {found[0]} and {found[1]}. Write the path of one."
        self.missing += 1
        near = get_close_matches(name, self.paths, n=1) if self.missing <= HINTS else []
        hint = f"Did you mean {near[0]!r}?" if near else "Copy it there, or take the line out."
        return "", f"no such picture: {name!r} is not in {self.folder}. {hint}"

    def notes(self, captions: str, used: set[str]) -> list[str]:
        """What a person may want to know."""
        unused = [path for path in self.pictures if path not in used]
        shown = f"{len(unused):,} picture{'s have' if len(unused) > 1 else ' has'} no caption in {captions}"
        return [f"{shown}, such as {os.path.relpath(unused[0], self.folder)}"] if unused else []


def pictures_in(folder: str | Path) -> list[str]:
    """The paths of all pictures below a folder, in order."""
    return PictureFolder(os.path.expanduser(folder)).pictures
