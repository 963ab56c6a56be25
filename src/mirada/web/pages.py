"""The pages and what they are made of: all files are ours, read once, served from memory."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response

from mirada.web.limits import Refused

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
HOMES = {
    "": ("mirada.web", "static"),
    "attention/": ("mirada.drawing", "static/attention"),
}  # by the start of their paths


@dataclass(frozen=True)
class StaticFile:
    """A file of ours."""

    content: bytes
    kind: str
    tag: str


def below(folder: Traversable, path: str = "") -> Iterator[tuple[str, Traversable]]:
    """All files of a folder, by their paths in it."""
    for item in folder.iterdir():
        if item.is_dir():
            yield from below(item, f"{path}{item.name}/")
        else:
            yield path + item.name, item


class Pages:
    """`/`, `/docs` and `/static/...`."""

    def __init__(self) -> None:
        self.files: dict[str, StaticFile] = {}
        for start, (package, folder) in HOMES.items():
            for path, item in below(files(package).joinpath(folder)):
                kind = KINDS.get("." + path.rpartition(".")[2])
                if kind is not None:
                    content = item.read_bytes()
                    self.files[start + path] = StaticFile(content, kind, f'"{sha256(content).hexdigest()[:20]}"')

    async def app(self, request: Request) -> Response:
        return self.respond(request, "app.html")

    async def docs(self, request: Request) -> Response:
        return self.respond(request, "docs.html")

    async def icon(self, request: Request) -> Response:
        return self.respond(request, "icon.svg")

    async def static(self, request: Request) -> Response:
        return self.respond(request, request.path_params["path"])

    def respond(self, request: Request, path: str) -> Response:
        """A file; browsers ask each time whether theirs is still the same."""
        found = self.files.get(path)
        if found is None:
            raise Refused(404, "there is no such page")
        headers = {"ETag": found.tag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == found.tag:
            return Response(status_code=304, headers=headers)
        return Response(found.content, media_type=found.kind, headers=headers)
