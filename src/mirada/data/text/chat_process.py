"""Render chat templates in a process of their own: `python chat_process.py` reads a request on its input and answers as JSON.

It imports nothing of mirada. A template is a program of somebody else: it runs in Jinja's immutable sandbox, without a
loader, and in a process that may not open files, start others, or use more than a little memory and time.
"""

import json
import sys
from datetime import datetime
from importlib import import_module
from typing import Any, NoReturn

SECONDS = 2  # of a processor
MEMORY = 1 << 30
MOST_OUTPUT = 4 << 20  # characters
DEEPEST = 400  # calls inside of each other


class RaisedError(Exception):
    """What a template itself says is wrong."""


def main() -> None:
    """Read {"template", "values": [...]} and write {"texts": [...]}, or {"error", "said"}."""
    request = json.load(sys.stdin)
    try:
        environment = _environment()
        _limit()
        answer: dict[str, Any] = {"texts": _rendered(environment, request)}
    except MemoryError:
        answer = {"error": "it asks for too much memory"}
    except RecursionError:
        answer = {"error": "it calls itself without end"}
    except RaisedError as error:
        answer = {"error": str(error), "said": True}
    except Exception as error:  # whatever a template does wrong is told in a line
        answer = {"error": f"{type(error).__name__}: {error}"}
    sys.stdout.write(json.dumps(answer))


def _environment() -> Any:
    """Jinja as chat templates want it: blocks leave no lines, loops can break, and a few functions."""
    for late in ("jinja2.constants", "jinja2.debug"):  # Jinja imports them where it needs them
        import_module(late)
    from jinja2 import nodes
    from jinja2.ext import Extension, loopcontrols
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Generation(Extension):
        """{% generation %}: what the model wrote; the text is the same."""

        tags = {"generation"}  # noqa: RUF012 (Jinja's way)

        def parse(self, parser: Any) -> Any:
            line = next(parser.stream).lineno
            return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)

    def tojson(
        value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
    ) -> str:
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    def raise_exception(message: object) -> NoReturn:
        raise RaisedError(str(message)[:500])

    def strftime_now(pattern: str) -> str:
        return datetime.now().strftime(pattern[:200])

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = strftime_now
    # what is imported on first use is imported now: later no file can be opened
    environment.from_string("{{ 'a' ~ 1.5 }}{{ strftime_now('%c') }}{{ 'ab' | tojson | title | upper }}").render()
    return environment


def _limit() -> None:
    """From here on: no files, no processes, little time and memory. Where the system has no limits, the caller's clock."""
    sys.setrecursionlimit(DEEPEST)
    try:
        import resource
    except ImportError:  # Windows
        return
    for name, most in (("CPU", SECONDS), ("AS", MEMORY), ("FSIZE", 0), ("NPROC", 0), ("NOFILE", 0), ("CORE", 0)):
        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is not None:
            try:
                resource.setrlimit(number, (most, most))
            except (ValueError, OSError):  # a stricter limit holds already
                continue


def _rendered(environment: Any, request: dict[str, Any]) -> list[str]:
    """The text of the template for each set of values."""
    template, texts = environment.from_string(request["template"]), []
    for values in request["values"]:
        parts, length = [], 0
        for part in template.generate(**values):
            length += len(part)
            if length > MOST_OUTPUT:
                raise RaisedError(f"it writes more than {MOST_OUTPUT:,} characters")
            parts.append(part)
        texts.append("".join(parts))
    return texts


if __name__ == "__main__":
    main()
