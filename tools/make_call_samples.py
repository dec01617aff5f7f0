#!/usr/bin/env python3
"""Makes tests/fixtures/answer/calls.json: calls as the templates that models are shipped with show
them.

    python3 tools/make_call_samples.py LLAMA_CPP    (needs transformers and jinja2; made with
                                                     transformers 5.24)

LLAMA_CPP is its source, which has such templates in models/templates (made with that of
llama-cpp-python 0.3.36). Of each there are what of it tells the format (marks and a few phrases,
not the template), what it makes of an answer with calls, from where a model's own words begin up to
the mark that ends them, whether they begin within a thought, and the parts that the tests of mica's
splitter make of them.
"""
import hashlib
import json
import pathlib
import re
import sys

from transformers.utils.chat_template_utils import render_jinja_template

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures"
OUT = "answer/calls.json"
TEMPLATES = pathlib.Path(sys.argv[1]) / "models/templates"

# Templates, and mica's name of their format.
CASES = {
    "ByteDance-Seed-OSS": "seed",
    "Cohere2MoE": "command",
    "CohereForAI-c4ai-command-r7b-12-2024-tool_use": "command",
    "CohereForAI-c4ai-command-r-plus-tool_use": "command_r",
    "GLM-4.6": "glm",
    "GLM-4.7-Flash": "glm",
    "LFM2.5-8B-A1B": "lfm2",
    "MiniMax-M1": "minimax_m1",
    "MiniMax-M2": "minimax",
    "Mistral-Small-3.2-24B-Instruct-2506": "mistral",
    "NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": "qwen_xml",
    "NVIDIA-Nemotron-Nano-v2": "nemotron",
    "NousResearch-Hermes-3-Llama-3.1-8B-tool_use": "hermes",
    "Qwen-QwQ-32B": "hermes",
    "Qwen-Qwen2.5-7B-Instruct": "hermes",
    "Qwen-Qwen3-0.6B": "hermes",
    "Qwen3-Coder": "qwen_xml",
    "Qwen3.5-4B": "qwen_xml",
    "deepseek-ai-DeepSeek-V3.1": "deepseek_v3_1",
    "deepseek-ai-DeepSeek-V3.2": "deepseek_v3_2",
    "google-gemma-4-31B-it": "gemma4",
    "ibm-granite-granite-4.0": "hermes",
    "meta-llama-Llama-3.1-8B-Instruct": "llama",
    "meta-llama-Llama-3.2-3B-Instruct": "llama",
    "mistralai-Ministral-3-14B-Reasoning-2512": "mistral",
    "mistralai-Mistral-Nemo-Instruct-2407": "mistral_list",
    "moonshotai-Kimi-K2": "kimi",
    "openai-gpt-oss-120b": "harmony",
    "unsloth-mistral-Devstral-Small-2507": "mistral",
}
MARK = re.compile(r"<[|｜][A-Za-z_▁]+[|｜]?>|<[a-z_]+\|>|</?[a-z_:]+>|</?TOOLCALL>|\[/?[A-Z_]+\]|｜DSML｜")
PHRASES = ("tools", "<function=", "```json", "json-formatted list of actions", "available_tools",
           "Environment: ipython", '"parameters": dictionary')
ENDS = re.compile(r"<\|im_end\|>|<EOS>|\[e~\[|<seed:eos>|<\|END_OF_TURN_TOKEN\|>|<\|end_of_text\|>|"
                  r"<｜end▁of▁sentence｜>|<end_of_sentence>|<\|call\|>|<\|tool_response>|"
                  r"<SPECIAL_12>|<\|START_OF_TURN_TOKEN\|>|<\|eot_id\|>|<\|eom_id\|>")
CALLS = [("f", {"s": "x \"y\"", "n": 3, "o": {"k": [1]}}), ("get_weather", {"city": "Paris"})]


def tool(name, properties):
    return {"type": "function", "function": {
        "name": name, "description": "It does.", "parameters": {
            "type": "object", "properties": properties, "required": []}}}


TOOLS = [tool("f", {"s": {"type": "string", "description": "s"},
                    "n": {"type": "integer", "description": "n"},
                    "o": {"type": "object", "description": "o", "additionalProperties": False}}),
         tool("get_weather", {"city": {"type": "string", "description": "city"}})]


def render(template, messages, generate=False):
    texts, _ = render_jinja_template(
        conversations=[messages], tools=TOOLS, chat_template=template, bos_token="",
        eos_token="<EOS>", add_generation_prompt=generate)
    return texts[0]


def answer(template, calls):
    """What an assistant's answer is behind the prompt."""
    user = {"role": "user", "content": "Hi"}
    said = {"role": "assistant", "content": "", "tool_calls": [
        {"id": "abcdef123", "type": "function", "function": {"name": name, "arguments": arguments}}
        for name, arguments in calls]}
    whole = render(template, [user, said])
    prompt = render(template, [user], True)
    at = next((i for i, (a, b) in enumerate(zip(whole, prompt)) if a != b), len(prompt))
    cut = re.search(r"<[^<>]*$", whole[:at])  # within a mark
    said = whole[cut.start() if cut else at:].removeprefix("<|CHATBOT_TOKEN|>")
    return ENDS.split(said)[0], "</think>" in said and "<think>" not in said


def make(name):
    template = (TEMPLATES / f"{name}.jinja").read_text()
    for calls in (CALLS, CALLS[:1]):  # of some one at a time
        try:
            text, is_open = answer(template, calls)
        except Exception as error:
            if len(calls) == 1 or "single tool-calls" not in str(error):
                raise SystemExit(f"{name}: {error!r}")
            continue
        if len(calls) == 1 or "get_weather" in text:
            break
    shown = sorted(set(MARK.findall(template)) | {p for p in PHRASES if p in template})
    in_order = CASES[name] == "gemma4"  # of the alphabet, in the template
    indent = 4 if CASES[name] == "command_r" else None  # of arguments within a list and a call
    parts = "|".join(f"{n}:{json.dumps(a, indent=indent, sort_keys=in_order)}" for n, a in calls)
    parts = parts.replace("\n", "\n        ")
    return {"format": CASES[name], "shown": shown, "answer": text, "parts": parts} | (
        {"open": True} if is_open else {})


def update_manifest(name):
    path = FIXTURES / "MANIFEST.sha256"
    lines = [line for line in path.read_text().splitlines() if line.split("  ")[1] != name]
    lines.append(f"{hashlib.sha256((FIXTURES / name).read_bytes()).hexdigest()}  {name}")
    path.write_text("\n".join(sorted(lines, key=lambda line: line.split("  ")[1])) + "\n")


def main():
    (FIXTURES / OUT).parent.mkdir(exist_ok=True)
    cases = {name: make(name) for name in CASES}
    lines = [f'"{k}": {json.dumps(v, ensure_ascii=False)}' for k, v in cases.items()]
    (FIXTURES / OUT).write_text("{\n" + ",\n".join(lines) + "\n}\n")
    update_manifest(OUT)


if __name__ == "__main__":
    main()
