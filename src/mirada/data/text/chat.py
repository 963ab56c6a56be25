"""Chat templates: from messages to the text that a model was trained to continue.

A template comes with a checkpoint and is a program; it runs in a process of its own (`chat_process.py`) that has no access
to anything and ends after a few seconds.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mirada.errors import require
from mirada.words import shortened

PROCESS = Path(__file__).with_name("chat_process.py")
SECONDS = 30.0  # by the clock, on a busy machine; the process itself stops after a few of a processor
Message = Mapping[str, Any]  # role and content


def render(
    template: str,
    conversations: Sequence[Sequence[Message]],
    names: Mapping[str, str] | None = None,
    answer: bool = True,
    **more: Any,
) -> list[str]:
    """The texts of conversations.

    Args:
        template: the chat template, in Jinja's language.
        conversations: lists of messages, each a mapping with `role` and `content`.
        names: special tokens by the names that the template has for them, such as `bos_token`.
        answer: whether the text ends where the model's answer begins.
        more: further values of the template, such as `tools`.

    >>> template = "{% for m in messages %}[{{ m.role }}] {{ m.content }}{% endfor %}{% if add_generation_prompt %} >{% endif %}"
    >>> render(template, [[{"role": "user", "content": "Hello"}]])
    ['[user] Hello >']
    """
    require_jinja()
    values = [
        {"messages": list(messages), "add_generation_prompt": answer, "tools": None, "documents": None}
        | dict(names or {}) | more for messages in conversations
    ]  # fmt: skip
    answered = _asked({"template": template, "values": values})
    if "error" in answered:
        reason = shortened(" ".join(str(answered["error"]).split()), 300)
        says = "says" if answered.get("said") else "fails"
        raise ValueError(f"the chat template of this checkpoint {says}: {reason}")
    texts = answered.get("texts")
    good = isinstance(texts, list) and len(texts) == len(values) and all(isinstance(text, str) for text in texts)
    require(good, "the chat template of this checkpoint fails: its process gave no texts")
    return list(texts)  # type: ignore[arg-type]


def require_jinja() -> None:
    """Require Jinja, which only chat templates need."""
    if find_spec("jinja2") is None:
        raise ValueError("chat templates need Jinja: pip install 'mirada[chat]'")


def _asked(request: Mapping[str, Any]) -> dict[str, Any]:
    """What the process answers; how it ended, where it does not answer."""
    found = [find_spec(name) for name in ("jinja2", "markupsafe")]
    places = sorted({str(Path(each.origin).parent.parent) for each in found if each is not None and each.origin})
    run = f"runpy.run_path({str(PROCESS)!r}, run_name='__main__')"
    start = f"import sys; sys.path[:0] = {places!r}; import runpy; {run}"
    command = [sys.executable, "-I", "-S", "-c", start]
    try:
        content = json.dumps(request).encode()
    except (TypeError, ValueError) as error:
        raise ValueError(f"messages must be plain JSON: {shortened(str(error), 120)}") from None
    try:
        done = subprocess.run(command, input=content, capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"it was not done after {SECONDS:.0f} seconds"}
    if done.returncode < 0:
        return {"error": "it was not done after a few seconds, or asked for too much memory"}
    try:
        answered = json.loads(done.stdout)
    except ValueError:
        return {"error": "its process ended without an answer"}
    return answered if isinstance(answered, dict) else {"error": "its process gave no answer"}
