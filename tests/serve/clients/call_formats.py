#!/usr/bin/env python3
"""A thought, a text and calls in each form that families have, by each API, whole and streamed.

    call_formats.py MICA FOLDER

The answers are scripted (scripted_model.py) and the marks of a form are text; its chat template
shows them. What comes must be the same in all eight ways. Needs nothing but Python.
"""
import json
import os
import tempfile
import urllib.request

import scripted_model
from serving import served

TEMPLATE = ("{# tools %s #}{%%- for m in messages %%}{{- '<|' + m.role + '|>' + m.content }}"
            "{%%- endfor %%}{%%- if add_generation_prompt %%}{{- '<|go|>' }}{%%- endif %%}")
CITY, DAYS = 'Köln "a" <b>', 3
ARGUMENTS = {"city": CITY, "days": DAYS}
JSON = json.dumps(ARGUMENTS, ensure_ascii=False)
CALL = f'{{"name": "look", "arguments": {JSON}}}'
PYTHON = f"look(city='{CITY}', days={DAYS})"
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"},
                                               "days": {"type": "integer"}}}
THINK = "<think>\nHm, a thought.\n</think>\n\n"
BEGIN, END, ONE, SEP, LAST = (f"<｜tool▁{name}｜>" for name in (
    "calls▁begin", "calls▁end", "call▁begin", "sep", "call▁end"))
DSML = "｜DSML｜"
SECTION = "<|tool_calls_section_{}|>"

# What a template shows, the thought, and two calls: of `look` and of `stop`, which takes nothing.
FORMS = {
    "hermes": ("<tool_call> </think>", THINK,
               f'<tool_call>\n{CALL}\n</tool_call>\n<tool_call>\n{{"name": "stop", '
               '"arguments": {}}\n</tool_call>'),
    "qwen_xml": ("<function= <tool_call> </think>", THINK,
                 f"<tool_call>\n<function=look>\n<parameter=city>\n{CITY}\n</parameter>\n"
                 f"<parameter=days>\n{DAYS}\n</parameter>\n</function>\n</tool_call>\n"
                 "<tool_call>\n<function=stop>\n</function>\n</tool_call>"),
    "glm": ("<arg_key> </think>", THINK,
            f"<tool_call>look\n<arg_key>city</arg_key>\n<arg_value>{CITY}</arg_value>\n<arg_key>"
            f"days</arg_key>\n<arg_value>{DAYS}</arg_value>\n</tool_call>\n<tool_call>stop\n"
            "</tool_call>"),
    "gemma4": ("<|tool_call> <channel|>", "<|channel>thought\nHm, a thought.\n<channel|>",
               f'<|tool_call>call:look{{city:<|"|>{CITY}<|"|>,days:{DAYS}}}<tool_call|>'
               "<|tool_call>call:stop{}<tool_call|>"),
    "mistral": ("[TOOL_CALLS] [ARGS] [/THINK]", "[THINK]Hm, a thought.[/THINK]",
                f"[TOOL_CALLS]look[ARGS]{JSON}[TOOL_CALLS]stop[ARGS]{{}}"),
    "mistral_list": ("[TOOL_CALLS] </think>", THINK,
                     f'[TOOL_CALLS][{CALL}, {{"name": "stop", "arguments": {{}}}}]'),
    "kimi": ("<|tool_calls_section_begin|> </think>", THINK,
             SECTION.format("begin") + "<|tool_call_begin|>functions.look:0"
             f"<|tool_call_argument_begin|>{JSON}<|tool_call_end|><|tool_call_begin|>"
             "functions.stop:1<|tool_call_argument_begin|>{}<|tool_call_end|>"
             + SECTION.format("end")),
    "deepseek_v3": (BEGIN + " ```json </think>", THINK,
                    f"{BEGIN}{ONE}function{SEP}look\n```json\n{JSON}\n```{LAST}\n{ONE}function"
                    f"{SEP}stop\n```json\n{{}}\n```{LAST}{END}"),
    "deepseek_v3_1": (BEGIN + " </think>", THINK,
                      f"{BEGIN}{ONE}look{SEP}{JSON}{LAST}{ONE}stop{SEP}{{}}{LAST}{END}"),
    "deepseek_v3_2": ("<｜DSML｜ </think>", THINK, f'<{DSML}function_calls>\n<{DSML}invoke name="look">'
                      f'\n<{DSML}parameter name="city" string="true">{CITY}</{DSML}parameter>\n'
                      f'<{DSML}parameter name="days" string="false">{DAYS}</{DSML}parameter>\n'
                      f'</{DSML}invoke>\n<{DSML}invoke name="stop">\n</{DSML}invoke>\n'
                      f"</{DSML}function_calls>"),
    "command": ("<|START_ACTION|> <|END_THINKING|>",
                "<|START_THINKING|>Hm, a thought.<|END_THINKING|>",
                '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "look", "parameters": '
                f'{JSON}}},\n    {{"tool_call_id": "1", "tool_name": "stop", "parameters": {{}}}}\n'
                "]<|END_ACTION|>"),
    "command_r": ("json-formatted list of actions </think>", THINK,
                  f'Action: ```json\n[\n    {{"tool_name": "look", "parameters": {JSON}}},\n    '
                  '{"tool_name": "stop", "parameters": {}}\n]```'),
    "seed": ("<seed:tool_call> </seed:think>", "<seed:think>Hm, a thought.</seed:think>",
             f"<seed:tool_call>\n<function=look>\n<parameter=city>{CITY}</parameter>\n"
             f"<parameter=days>{DAYS}</parameter>\n</function>\n</seed:tool_call>\n"
             "<seed:tool_call>\n<function=stop>\n</function>\n</seed:tool_call>"),
    "minimax": ("<minimax:tool_call> </think>", THINK,
                '<minimax:tool_call>\n<invoke name="look">\n<parameter name="city">'
                f'{CITY}</parameter>\n<parameter name="days">{DAYS}</parameter>\n</invoke>\n'
                '<invoke name="stop">\n</invoke>\n</minimax:tool_call>'),
    "minimax_m1": ("<tool_calls> </think>", THINK,
                   f'<tool_calls>\n{CALL}\n{{"name": "stop", "arguments": {{}}}}\n</tool_calls>'),
    "lfm2": ("<|tool_call_start|> </think>", THINK,
             f"<|tool_call_start|>[{PYTHON}, stop()]<|tool_call_end|>"),
    "olmo3": ("<function_calls> </think>", THINK,
              f"<function_calls>\n{PYTHON}\nstop()\n</function_calls>"),
    "phi4": ("<|/tool_call|> </think>", THINK,
             f'<|tool_call|>[{CALL}, {{"name": "stop", "arguments": {{}}}}]<|/tool_call|>'),
    "granite": ("<|start_of_role|> available_tools </think>", THINK,
                f'<|tool_call|>[{CALL}, {{"name": "stop", "arguments": {{}}}}]'),
    "nemotron": ("<TOOLCALL> </think>", THINK,
                 f'<TOOLCALL>[{CALL}, {{"name": "stop", "arguments": {{}}}}]</TOOLCALL>'),
    "harmony": ("<|channel|> <|message|>",
                "<|channel|>analysis<|message|>Hm, a thought.<|end|><|start|>assistant<|channel|>"
                "commentary<|message|>",
                f"<|end|><|start|>assistant to=functions.look<|channel|>commentary json<|message|>"
                f"{JSON}<|call|><|start|>assistant<|channel|>commentary to=functions.stop "
                "<|constrain|>json<|message|>{}<|call|>"),
}
TEXT = "I look it up."
WANT = ("Hm, a thought.", TEXT, [("look", ARGUMENTS), ("stop", {})])
ASK = [{"role": "user", "content": "Go."}]


def post(url, path, body):
    request = urllib.request.Request(url + path, json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read().decode()


def events(text):
    return [json.loads(line[6:]) for line in text.splitlines()
            if line.startswith("data: ") and line != "data: [DONE]"]


def tools(wrap):
    return [wrap({"name": name, "parameters": PARAMETERS if name == "look" else {"type": "object"}})
            for name in ("look", "stop")]


def chat(url, model, stream):
    text = post(url, "/v1/chat/completions", {
        "model": model, "messages": ASK, "stream": stream,
        "tools": tools(lambda f: {"type": "function", "function": f})})
    if not stream:
        parts = [json.loads(text)["choices"][0]["message"]]
    else:
        parts = [e["choices"][0]["delta"] for e in events(text) if e["choices"]]
    calls = {}
    for part in parts:
        for i, call in enumerate(part.get("tool_calls") or []):
            kept = calls.setdefault(call.get("index", i), ["", ""])
            kept[0] += call["function"].get("name") or ""
            kept[1] += call["function"].get("arguments") or ""
    said = ["".join(part.get(key) or "" for part in parts)
            for key in ("reasoning_content", "content")]
    return *said, [(name, json.loads(arguments)) for name, arguments in calls.values()]


def responses(url, model, stream):
    text = post(url, "/v1/responses", {
        "model": model, "input": "Go.", "stream": stream,
        "tools": tools(lambda f: {"type": "function", **f})})
    deltas = {"response.reasoning_text.delta": "", "response.output_text.delta": "",
              "response.function_call_arguments.delta": ""}
    whole = json.loads(text) if not stream else None
    for event in events(text) if stream else []:
        if event["type"] in deltas:
            deltas[event["type"]] += event["delta"]
        if event["type"] == "response.completed":
            whole = event["response"]
    thought = "".join(part["text"] for item in whole["output"] if item["type"] == "reasoning"
                      for part in item.get("content") or [])
    said = "".join(part["text"] for item in whole["output"] if item["type"] == "message"
                   for part in item["content"])
    calls = [item for item in whole["output"] if item["type"] == "function_call"]
    if stream:
        assert deltas["response.output_text.delta"] == said, deltas
        arguments = "".join(call["arguments"] for call in calls)
        assert deltas["response.function_call_arguments.delta"] == arguments, deltas
    return thought, said, [(call["name"], json.loads(call["arguments"])) for call in calls]


def messages(url, model, stream):
    text = post(url, "/v1/messages", {
        "model": model, "messages": ASK, "max_tokens": 500, "stream": stream,
        "thinking": {"type": "adaptive"},
        "tools": tools(lambda f: {"name": f["name"], "input_schema": f["parameters"]})})
    if not stream:
        blocks = json.loads(text)["content"]
    else:
        blocks = []
        for event in events(text):
            if event["type"] == "content_block_start":
                blocks.append({**event["content_block"], "json": ""})
            if event["type"] == "content_block_delta":
                delta = event["delta"]
                for key in ("text", "thinking"):
                    blocks[-1][key] = blocks[-1].get(key, "") + delta.get(key, "")
                blocks[-1]["json"] += delta.get("partial_json", "")
        for block in blocks:
            if block["type"] == "tool_use":
                block["input"] = json.loads(block["json"] or "{}")
    said = ["".join(b[key] for b in blocks if b["type"] == key) for key in ("thinking", "text")]
    return *said, [(b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"]


def ollama(url, model, stream):
    text = post(url, "/api/chat", {
        "model": model, "messages": ASK, "think": True, "stream": stream,
        "tools": tools(lambda f: {"type": "function", "function": f})})
    parts = [json.loads(line)["message"] for line in text.splitlines()]
    said = ["".join(part.get(key) or "" for part in parts) for key in ("thinking", "content")]
    return *said, [(call["function"]["name"], call["function"]["arguments"])
                   for part in parts for call in part.get("tool_calls") or []]


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name, (shown, thought, calls) in FORMS.items():
            scripted_model.build(os.path.join(folder, name), f"{thought}{TEXT}{calls}", "Well.",
                                 template=TEMPLATE % shown)
        with served(models=[os.path.join(folder, name) for name in FORMS]) as url:
            for name in FORMS:
                for api in (chat, responses, messages, ollama):
                    for stream in (False, True):
                        got = api(url, name, stream)
                        assert got == WANT, (name, api.__name__, stream, got)
    print(f"{len(FORMS)} forms by 4 APIs")


main()
