"""`mirada serve`: the web app and the HTTP API of some runs."""

import os
from typing import Annotated

import typer

from mirada.cli.arguments import Device, Precision, examples
from mirada.errors import require
from mirada.words import echo

EPILOG = examples(
    "mirada serve runs/translate",
    "mirada serve runs/translate runs/recognize --port 8080",
    "mirada serve runs/classify --host 0.0.0.0 --token SECRET",
)
SHORTEST_TOKEN = 16  # characters


def serve(
    folders: Annotated[list[str], typer.Argument(metavar="DIR...", help="The folders of one or several runs.")],
    host: Annotated[str, typer.Option(help="Where to listen; 127.0.0.1 is for this computer only.")] = "127.0.0.1",
    port: Annotated[
        int | None, typer.Option(help="The port; without it 8000, or the next that is free.", show_default=False)
    ] = None,
    token: Annotated[
        str,
        typer.Option(
            envvar="MIRADA_TOKEN", show_envvar=True, show_default=False,
            help="What requests must bring as Authorization: Bearer TOKEN. Made and printed where others can connect.",
        ),
    ] = "",
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A further host name of this server.")
    ] = None,
    seconds: Annotated[float, typer.Option(help="Time limit of a request.")] = 60.0,
    queue: Annotated[int, typer.Option(help="Inputs that may wait in the queue; more are refused.")] = 1024,
    quiet: Annotated[bool, typer.Option("--quiet", help="No access log.")] = False,
    device: Device = "cpu",
    precision: Precision = "float32",
) -> None:  # fmt: skip
    """Serve trained runs: a web page for questions and their attention, and an HTTP API."""
    require(port is None or 0 <= port <= 65535, f"--port must be 0 to 65535: got {port}")
    require(seconds > 0 and queue > 0, f"--seconds and --queue must be above 0: got {seconds:g} and {queue}")
    for folder in folders:
        require(os.path.isdir(os.path.expanduser(folder)), f"{folder}: no such folder. Give the folder of a run.")

    import secrets

    from mirada.web import app as web
    from mirada.web.options import Limits
    from mirada.web.runs import load_runs

    local = web.is_loopback(host)
    made = not local and not token
    token = secrets.token_urlsafe(24) if made else token
    require(
        local or len(token) >= SHORTEST_TOKEN, f"others can connect: a token needs at least {SHORTEST_TOKEN} characters"
    )
    require(token.isascii() and token.isprintable(), "a token has printable ASCII characters only")
    runs, limits = load_runs(folders, device, precision), Limits(seconds=seconds, queue=queue)
    listening = web.bound_socket(host, port)
    where = web.address(host, listening)
    names = (host, where.removeprefix("http://").rpartition(":")[0], *(allow_host or ()))
    app = web.web_app(runs, limits, web.Access(token, names, local, not quiet))

    def ready() -> None:
        for served in runs:
            echo(f"{served.name}: {served.task.name} with {served.settings.name}")
        if made:
            echo(f"Others can connect. Requests need the header Authorization: Bearer {token}")
        echo(f"Open {where}/{'#token=' + token if made else ''}  (API: {where}/docs; Ctrl-C ends)")

    web.serve(app, listening, limits, ready)
