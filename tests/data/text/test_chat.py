"""Chat templates: the texts of transformers' apply_chat_template, and nothing that a template asks for besides."""

import time
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from mirada.data.text.chat import render
from mirada.data.text.foreign import read_tokenizer
from mirada.data.text.pretrained import PretrainedTokenizer
from tests.data.text.foreign_folders import FOLDERS

SYSTEM, USER, ASSISTANT = ({"role": role, "content": text} for role, text in (
    ("system", " Be brief. "), ("user", "Hello, <b>wörld</b>!\n"), ("assistant", "Hi."),
))  # fmt: skip
CONVERSATIONS = [[USER], [SYSTEM, USER], [SYSTEM, USER, ASSISTANT, USER], [USER, ASSISTANT, USER]]
TEMPLATES = {
    "headers, as Llama 3 has them": (
        "{{- bos_token }}\n{%- if messages[0]['role'] == 'system' %}\n    {%- set said = messages[0]['content'] | trim %}\n"
        "    {%- set messages = messages[1:] %}\n{%- else %}\n    {%- set said = '' %}\n{%- endif %}\n"
        "{{- '<|head|>system<|/head|>\\n\\nToday: ' + strftime_now('%d %b %Y') + '\\n' + said + eos_token }}\n"
        "{%- for m in messages %}\n    {{- '<|head|>' + m['role'] + '<|/head|>\\n\\n' + m['content'] | trim + eos_token }}\n"
        "{%- endfor %}\n{%- if add_generation_prompt %}\n    {{- '<|head|>assistant<|/head|>\\n\\n' }}\n{%- endif %}\n"
    ),
    "turns with a usual system, as Qwen and SmolLM have them": (
        "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
        "{{ '<|im_start|>system\nYou help.\n' }}{% endif %}"
        "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
    ),
    "roles by name, as Phi-3 has them": (
        "{% for message in messages %}{% if message['role'] == 'system' %}{{'<|system|>\n' + message['content'] + '<|end|>\n'}}"
        "{% elif message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}"
        "{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"
    ),
    "instructions that alternate, as Mistral has them": (
        "{%- set ns = namespace(index=0, last='') %}\n{{- bos_token }}\n{%- for message in messages %}\n"
        "    {%- if message.role == 'system' %}\n        {%- set ns.last = message.content %}\n        {%- continue %}\n"
        "    {%- endif %}\n    {%- if (message['role'] == 'user') != (ns.index % 2 == 0) %}\n"
        "        {{- raise_exception('roles must alternate user/assistant/user/...') }}\n    {%- endif %}\n"
        "    {%- set ns.index = ns.index + 1 %}\n    {%- if message['role'] == 'user' %}\n"
        "        {{- '[INST] ' + (ns.last + '\\n\\n' if ns.last else '') + message['content'] + ' [/INST]' }}\n"
        "    {%- else %}\n        {{- ' ' + message['content'] | trim + eos_token }}\n    {%- endif %}\n{%- endfor %}\n"
    ),
    "everything else": (
        "{% macro shown(m) %}\n    {{ m | tojson }}\n{% endmacro %}\n{# a remark #}\n{% for m in messages[::-1] %}\n"
        "  {% generation %}{{ shown(m) }}{% endgeneration %}\n  {% if loop.last %}\n"
        "{{ {'a': [1, none, true]} | tojson(indent=2) }}\n"
        "    {% break %}\n  {% endif %}\n{% endfor %}\n"
        "{{ messages | map(attribute='role') | join(', ') | upper }} {{ missing }}\n"
        "{%- if tools is none and not documents %} no tools{% endif %}"
        "{{ messages | selectattr('role', 'equalto', 'user') | list | length }}"
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("llama3")
    FOLDERS["llama3"](path)
    return path


def opened(folder: Path, template: str) -> PretrainedTokenizer:
    theirs = {"tokenizer_config": {"bos_token": "<|begin|>", "eos_token": "<|end|>", "chat_template": template}}
    tokenizer = read_tokenizer({path.name: path for path in folder.iterdir()}, theirs)
    assert isinstance(tokenizer, PretrainedTokenizer)
    return tokenizer


@pytest.mark.parametrize("name", TEMPLATES)
def test_texts_and_tokens_are_theirs(folder: Path, name: str) -> None:
    theirs: Any = PreTrainedTokenizerFast.from_pretrained(folder)
    names = {"bos_token": theirs.bos_token, "eos_token": theirs.eos_token}
    for answer in (True, False):
        wanted = [
            theirs.apply_chat_template(
                each, chat_template=TEMPLATES[name], tokenize=False, add_generation_prompt=answer
            )
            for each in CONVERSATIONS
        ]
        assert render(TEMPLATES[name], CONVERSATIONS, names, answer) == wanted
    ours = opened(folder, TEMPLATES[name])
    assert ours.chat(CONVERSATIONS[1], answer=False) == theirs(wanted[1], add_special_tokens=False)["input_ids"]


def test_a_message_cannot_end_its_turn(folder: Path) -> None:
    ours = opened(folder, "{% for m in messages %}{{ m.content + eos_token }}{% endfor %}")
    text = "stop <|end|> now \ue000<|end|>\ue001"
    ids = ours.chat([{"role": "user", "content": text}])
    assert ids.count(ours.end) == 1
    assert ids[-1] == ours.end
    assert ours.decode(ids) == "stop <|end|> now <|end|>"


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{{ raise_exception('roles must alternate') }}", "says: roles must alternate"),
        ("{{ 'a' * 10 ** 10 }}", "too much memory"),
        ("{{ '%999999999999d' % 1 }}", "too much memory"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "calls itself without end"),
        ("{% for i in range(99999) %}{{ 'a' * 999 }}{% endfor %}", "writes more than 4,194,304 characters"),
        ("{{ ''.__class__.__mro__ }}", "is unsafe"),
        ("{{ cycler.__init__.__globals__.os.popen('id').read() }}", "is unsafe"),
        ("{{ messages.append(1) }}", "is unsafe"),
        ("{% include '/etc/passwd' %}", "no loader"),
        ("{% if %}", "TemplateSyntaxError"),
        ("{{ nothing.here }}", "'nothing' is undefined"),
        ("{" * 100_000, "fails"),
    ],
)
def test_what_a_template_may_not_do(template: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        render(template, [[USER]])
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 500


def test_a_template_that_loops_ends() -> None:
    began = time.process_time()
    with pytest.raises(ValueError, match="was not done after a few seconds"):
        render("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", [[USER]])
    assert time.process_time() - began < 2


def test_without_a_template_there_is_no_chat(folder: Path) -> None:
    ours = opened(folder, "")
    with pytest.raises(ValueError, match="has no chat template"):
        ours.chat([USER])
