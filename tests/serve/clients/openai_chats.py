#!/usr/bin/env python3
"""The README's Python, and OpenAI's own client against a server of the default model.

   openai_chats.py MICA FOLDER
"""
import json
import os
import re
import subprocess
import sys

from serving import FOLDER, MODEL, ROOT, find, raises, run, served

openai = find("openai")
QUESTION = [{"role": "user", "content": "What is curl?"}]


def expected():
    return run("run", "--model", MODEL, QUESTION[0]["content"])


def check_readme():
    text = open(ROOT + "/README.md", encoding="utf-8").read()
    program = re.search(r"```python\n(.*?)```", text, re.S).group(1)
    assert "http://127.0.0.1:8080" in program
    with served() as address:
        program = program.replace("http://127.0.0.1:8080", address)
        said = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True,
                              env=dict(os.environ, PYTHONPATH=FOLDER), text=True).stdout
    assert said.startswith("curl is a command line tool"), said


def check_chat(client):
    chats = client.chat.completions
    whole = chats.create(model="default", messages=QUESTION, temperature=0)
    assert whole.choices[0].message.content == expected()
    assert whole.choices[0].finish_reason == "stop"
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    pieces = list(chats.create(model="default", messages=QUESTION, temperature=0, stream=True,
                               stream_options={"include_usage": True}))
    text = "".join(p.choices[0].delta.content or "" for p in pieces if p.choices)
    assert text == whole.choices[0].message.content
    assert pieces[-1].usage == whole.usage or pieces[-1].usage.total_tokens == \
        whole.usage.total_tokens
    many = chats.create(model="default", messages=QUESTION, n=3, seed=5, temperature=2,
                        max_tokens=9, logprobs=True, top_logprobs=2, logit_bias={"444": 1},
                        stop=["zzz"], frequency_penalty=0.1, presence_penalty=0.1, user="me",
                        extra_body={"min_p": 0.01, "top_k": 50})
    assert [c.index for c in many.choices] == [0, 1, 2]
    for choice in many.choices:
        for token in choice.logprobs.content:
            assert bytes(token.bytes).decode(errors="replace") == token.token
            assert len(token.top_logprobs) == 2


def check_text(client):
    one = client.completions.create(model="default", prompt="curl is", temperature=0, max_tokens=8,
                                    echo=True, logprobs=1)
    choice = one.choices[0]
    generated = run("generate", "--model", MODEL, "--max-tokens", "8", "curl is")
    assert choice.text.strip() == generated or choice.text.endswith(generated), choice.text
    assert len(choice.logprobs.tokens) == one.usage.total_tokens
    score = json.loads(run("score", "--json", "--model", MODEL, "curl is"))
    logprobs = [v for v in choice.logprobs.token_logprobs if v is not None]
    ours = sum(logprobs[:one.usage.prompt_tokens - 1])
    assert abs(ours - score["log_probability"]) < 1e-6, (ours, score)
    two = client.completions.create(model="default", prompt=[[1, 2], [3]], max_tokens=2)
    assert [c.index for c in two.choices] == [0, 1]


def check_forms(client):
    """A forced call of a tool, and a document of a schema."""
    weather = {"name": "weather", "parameters": {
        "type": "object", "additionalProperties": False, "required": ["days"],
        "properties": {"days": {"type": "integer", "minimum": 1, "maximum": 9}}}}
    answer = client.chat.completions.create(
        model="default", messages=QUESTION, tools=[{"type": "function", "function": weather}],
        tool_choice={"type": "function", "function": {"name": "weather"}}, max_tokens=200)
    call = answer.choices[0].message.tool_calls[0]
    assert call.function.name == "weather"
    assert 1 <= json.loads(call.function.arguments)["days"] <= 9
    answer = client.chat.completions.create(
        model="default", messages=QUESTION, max_tokens=200, response_format={
            "type": "json_schema", "json_schema": {
                "name": "weather", "strict": True, "schema": weather["parameters"]}})
    assert 1 <= json.loads(answer.choices[0].message.content)["days"] <= 9
    answer = client.chat.completions.create(  # as vLLM's users ask for it
        model="default", messages=QUESTION, stop=["\n"],
        extra_body={"structured_outputs": {"regex": "[a-z]{3,8}@mica\\.example"}})
    assert re.fullmatch(r"[a-z]{3,8}@mica\.example", answer.choices[0].message.content)


def check_streamed_call(client):
    """The client's own helper puts the deltas of a call together: the same as the whole answer."""
    weather = {"name": "weather", "parameters": {
        "type": "object", "additionalProperties": False, "required": ["city", "days"],
        "properties": {"city": {"enum": ["Oslo", "Rome"]},
                       "days": {"type": "array", "items": {"type": "integer"}, "maxItems": 3}}}}
    asked = {"model": "default", "messages": QUESTION, "temperature": 0, "max_tokens": 200,
             "tools": [{"type": "function", "function": weather}], "tool_choice": "required",
             "parallel_tool_calls": False}
    whole = client.chat.completions.create(**asked).choices[0].message.tool_calls[0].function
    snapshots = []
    with client.chat.completions.stream(**asked) as stream:
        for event in stream:
            if event.type == "tool_calls.function.arguments.delta":
                snapshots.append(event.arguments)
                assert event.arguments.endswith(event.arguments_delta), event
        final = stream.get_final_completion().choices[0]
    call = final.message.tool_calls[0]
    assert final.finish_reason == "tool_calls" and call.id and call.type == "function", final
    assert (call.function.name, call.function.arguments) == (whole.name, whole.arguments)
    assert len(snapshots) > 3 and snapshots[-1] == whole.arguments, snapshots
    assert all(b.startswith(a) for a, b in zip(snapshots, snapshots[1:])), snapshots


def check_errors(client, address):
    for create, kind, named in (
            (lambda: client.chat.completions.create(model="none", messages=QUESTION),
             openai.NotFoundError, "none"),
            (lambda: client.chat.completions.create(model="default", messages=[]),
             openai.BadRequestError, "message"),
            (lambda: client.chat.completions.create(model="default", messages=QUESTION,
                                                    extra_body={"temprature": 1}),
             openai.BadRequestError, "temprature"),
            (lambda: openai.OpenAI(base_url=address + "/v1", api_key="wrong").models.list(),
             openai.AuthenticationError, "key")):
        raises(kind, create, named)


def main():
    check_readme()
    with served("--api-key", "sesame") as address:
        client = openai.OpenAI(base_url=address + "/v1", api_key="sesame")
        assert [m.id for m in client.models.list()] == ["default"]
        assert client.models.retrieve("default").id == "default"
        check_chat(client)
        check_text(client)
        check_forms(client)
        check_streamed_call(client)
        check_errors(client, address)
    print("openai", openai.__version__, "passed")


main()
