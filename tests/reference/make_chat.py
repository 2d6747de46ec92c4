#!/usr/bin/env python3
"""chat/NAME.json: what the template chat/NAME.jinja makes of conversations, by Jinja2 set up as transformers' apply_chat_template does;
jinja/expected.json: what the small templates of jinja/templates.json make of its values, null where Jinja2 refuses.

Needs Python 3 and jinja2 (made with 3.1.6). Usage: make_chat.py, from anywhere; all files are made anew, two runs give the same bytes.
The clock stands still: strftime_now shows 1764763200 in UTC."""
import copy, datetime, json, pathlib, warnings
from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1764763200
HERE = pathlib.Path(__file__).resolve().parent
TOKENS = {
    "llama2": ("<s>", "</s>"), "llama3": ("<|begin_of_text|>", "<|eot_id|>"), "llama3.2": ("<|begin_of_text|>", "<|eot_id|>"),
    "mistral-v0.1": ("<s>", "</s>"), "mistral-v0.3": ("<s>", "</s>"), "mistral-v7-tekken": ("<s>", "</s>"), "gemma2": ("<bos>", "<eos>"),
    "gemma3": ("<bos>", "<eos>"), "phi3": ("<s>", "<|endoftext|>"), "phi3.5": ("<s>", "<|endoftext|>"), "zephyr": ("<s>", "</s>"),
    "deepseek-v3": ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>"), "command-r": ("<BOS_TOKEN>", "<|END_OF_TURN_TOKEN|>"),
    "olmo2": ("<|endoftext|>", "<|endoftext|>"),
}
def say(*turns):
    roles = {"u": "user", "a": "assistant", "s": "system", "t": "tool"}
    return [{"role": roles[t[0]], "content": t[1:]} for t in turns]

CALL = {"type": "function", "id": "abcdefghi", "function": {"name": "weather", "arguments": {"place": "Zürich", "days": 2, "units": None}}}
TOOL = {"type": "function", "function": {"name": "weather", "description": "The weather \"there\" & <then>.", "parameters": {
    "type": "object", "properties": {"place": {"type": "string"}, "days": {"type": "array", "items": {"type": "integer"}}}, "required": ["place"]}}}
CONVERSATIONS = {
    "one": {"messages": say("uWhat is 2+2?")},
    "system": {"messages": say("sBe brief.", "uHi")},
    "turns": {"messages": say("uHi", "aHello!", "uHow are you?")},
    "system_turns": {"messages": say("sYou are a pirate.", "uHi", "aArr", "uWho?", "aMe.", "uBye")},
    "answered": {"messages": say("uHi", "aHello!")},
    "spaces": {"messages": say("s  a \n", "u\n  b\t ", "a  c\n\n", "u d")},
    "empty": {"messages": say("s", "u", "a", "u")},
    "unicode": {"messages": say("uIl fait très beau à Zürich — 東京 🙂👍🏽", "a<|im_end|> {{ x }} {% y %} \"q\" 'q' \\n")},
    "thought": {"messages": say("uHi", "a<think>\nhm\n</think>\n\nHello!", "u/no_think ok")},
    "thought_last": {"messages": say("s/no_think be quick", "uHi", "a<think>\nhm\n</think>\n\nHello!")},
    "wrong_order": {"messages": say("aHi", "uHello", "uAgain")},
    "two_systems": {"messages": say("sone", "uHi", "stwo", "uHo")},
    "tool": {"messages": say("uWeather?") + [{"role": "assistant", "content": "", "tool_calls": [CALL]}] +
             [{"role": "tool", "content": "sunny", "tool_call_id": "abcdefghi"}] + say("aIt is sunny."), "tools": [TOOL]},
    "parts": {"messages": [{"role": "user", "content": [{"type": "text", "text": " See "}, {"type": "image"}]}]},
}

class Generation(Extension):
    """{% generation %} marks the assistant's text for training; the text is the same."""
    tags = {"generation"}
    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_text"), [], [], body).set_lineno(line)
    def _text(self, caller):
        return caller()

def raise_exception(message):
    raise TemplateError(message)

def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(form)
    return env

def make_expressions(env):
    given, texts = json.loads((HERE / "jinja/templates.json").read_text()), []
    for template in given["templates"]:
        try:
            texts.append(env.from_string(template).render(**copy.deepcopy(given["values"])))
        except Exception:
            texts.append(None)
    lines = ",\n".join(json.dumps(text, ensure_ascii=False) for text in texts)
    (HERE / "jinja/expected.json").write_text('{"jinja2": "3.1.6", "now": %d, "texts": [\n%s\n]}\n' % (NOW, lines))

def main():
    env = environment()
    for path in sorted((HERE / "chat").glob("*.jinja")):
        bos, eos = TOKENS.get(path.stem, ("<|endoftext|>", "<|im_end|>"))
        template, cases = env.from_string(path.read_text()), []
        for name, conversation in CONVERSATIONS.items():
            for prompt in (False, True):
                values = dict({"tools": None, "documents": None}, **conversation, add_generation_prompt=prompt, bos_token=bos, eos_token=eos)
                case = {"name": name, "values": values}
                try:
                    case["text"] = template.render(**values)
                except Exception as error:  # raise_exception, and what the template cannot add up
                    case["error"] = str(error) if type(error) is TemplateError else True
                cases.append(case)
        # one conversation is one line: a change of a template shows as a change of lines
        lines = ",\n".join(json.dumps(case, ensure_ascii=False) for case in cases)
        path.with_suffix(".json").write_text('{"jinja2": "3.1.6", "now": %d, "cases": [\n%s\n]}\n' % (NOW, lines))
    make_expressions(env)

warnings.simplefilter("ignore")  # Python's, of what the templates try
main()
