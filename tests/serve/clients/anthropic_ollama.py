#!/usr/bin/env python3
"""Anthropic's and ollama's own clients against a server of the default model.

   anthropic_ollama.py MICA FOLDER NAME     NAME: anthropic or ollama

What must be answered is in the model's golden.json, which transformers made.
"""
import json
import sys

from serving import ROOT, find, raises, served

NAME = sys.argv[3]
package = find(NAME)
with open(ROOT + "/models/default/golden.json", encoding="utf-8") as file:
    golden = json.load(file)[0]
QUESTION = golden["messages"]
TEXT = golden["text"]
PROMPT_TOKENS = len(golden["prompt_ids"])
ANSWER_TOKENS = len(golden["greedy_ids"]) - 1  # without the stop id


def check_anthropic(anthropic, address):
    client = anthropic.Anthropic(base_url=address, api_key="sesame", max_retries=0)
    messages = client.messages
    request = {"model": "default", "max_tokens": 100, "messages": QUESTION,
               "extra_body": {"temperature": 0}}  # newer clients have no argument for it
    whole = messages.create(**request, system=[], metadata={"user_id": "me"})
    assert [(block.type, block.text) for block in whole.content] == [("text", TEXT)], whole
    assert (whole.stop_reason, whole.stop_sequence) == ("end_turn", None)
    usage = whole.usage
    assert usage.input_tokens + usage.cache_read_input_tokens == PROMPT_TOKENS, usage
    assert usage.output_tokens == ANSWER_TOKENS, usage
    with messages.stream(**request) as stream:
        assert "".join(stream.text_stream) == TEXT
        final = stream.get_final_message()
    assert final.content[0].text == TEXT and final.stop_reason == "end_turn"
    assert final.usage.output_tokens == ANSWER_TOKENS
    cut = messages.create(**request, stop_sequences=["nowhere", "HTTPS"])
    assert (cut.stop_reason, cut.stop_sequence) == ("stop_sequence", "HTTPS")
    assert cut.content[0].text == TEXT[:TEXT.index("HTTPS")]
    listed = [(m.id, m.display_name, m.type) for m in client.models.list()]
    assert listed == [("default", "default", "model")], listed
    assert [m.id for m in client.models.list(limit=1)] == ["default"]
    assert client.models.retrieve("default").created_at.year >= 2026
    schema = {"type": "object", "properties": {"tools": {"type": "integer"}},
              "required": ["tools"], "additionalProperties": False}
    shaped = messages.create(**request, output_config={
        "format": {"type": "json_schema", "schema": schema}})
    assert isinstance(json.loads(shaped.content[0].text)["tools"], int), shaped
    check_streamed_call(messages, request)
    counted = messages.count_tokens(model="default", messages=QUESTION)
    assert counted.input_tokens == PROMPT_TOKENS
    beta = client.beta.messages.create(model="default", max_tokens=3, messages=QUESTION)
    assert beta.stop_reason == "max_tokens" and beta.usage.output_tokens == 3, beta
    image = {"type": "image", "source": {"type": "url", "url": "http://localhost/a.png"}}
    seen = [{"role": "user", "content": [image]}]
    raises(anthropic.BadRequestError, lambda: messages.create(**{**request, "messages": seen}),
           "images")
    raises(anthropic.NotFoundError, lambda: messages.create(**{**request, "model": "another"}),
           "another", "not_found_error")
    raises(anthropic.NotFoundError, lambda: client.models.retrieve("another"),
           "'type': 'error'", "not_found_error")
    stranger = anthropic.Anthropic(base_url=address, api_key="wrong", max_retries=0)
    raises(anthropic.AuthenticationError, lambda: stranger.messages.create(**request),
           "authentication_error")


def check_streamed_call(messages, request):
    """The client's own helper puts the pieces of an input together: the same as the whole one."""
    asked = {**request, "max_tokens": 200, "tool_choice": {"type": "any"}, "tools": [
        {"name": "weather", "input_schema": {
            "type": "object", "additionalProperties": False, "required": ["city", "days"],
            "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"type": "integer"}}}}]}
    whole = messages.create(**asked)
    pieces = []
    with messages.stream(**asked) as stream:
        for event in stream:
            if event.type == "input_json":
                pieces.append(event.partial_json)
        final = stream.get_final_message()
    assert whole.stop_reason == final.stop_reason == "tool_use", (whole, final)
    assert [block.type for block in final.content] == ["tool_use"], final
    assert final.content[0].input == whole.content[0].input == json.loads("".join(pieces)), final
    assert len(pieces) > 3, pieces


def check_ollama(ollama, address):
    client = ollama.Client(host=address, headers={"Authorization": "Bearer sesame"})
    greedy = {"temperature": 0, "repeat_penalty": 1}
    whole = client.chat("default", messages=QUESTION, options=greedy)
    assert whole.message.content == TEXT and whole.done_reason == "stop", whole
    assert whole.prompt_eval_count == PROMPT_TOKENS and whole.eval_count == ANSWER_TOKENS, whole
    assert 0 < whole.eval_duration < whole.total_duration and whole.created_at.endswith("Z")
    pieces = list(client.chat("default", messages=QUESTION, options=greedy, stream=True))
    assert "".join(piece.message.content for piece in pieces) == TEXT
    assert [piece.done for piece in pieces] == [False] * ANSWER_TOKENS + [True]
    text = client.generate("default:latest", QUESTION[0]["content"],
                           options=ollama.Options(**greedy, num_predict=3, seed=1))
    assert text.response == "curl is a" and text.done_reason == "length", text
    assert client.generate("default").done_reason == "load"
    raw = client.generate("default", "curl is", raw=True, options={**greedy, "stop": ["tool"]},
                          logprobs=True, top_logprobs=1)
    assert raw.response == " a command line ", raw
    assert raw.logprobs[0].top_logprobs[0].logprob == raw.logprobs[0].logprob
    schema = {"type": "object", "properties": {"tools": {"type": "integer"}},
              "required": ["tools"], "additionalProperties": False}
    shaped = client.chat("default", messages=QUESTION, format=schema, options={"seed": 1})
    assert isinstance(json.loads(shaped.message.content)["tools"], int), shaped
    for seed in range(8):
        shaped = client.generate("default", "a", format="json",
                                 options={"seed": seed, "num_predict": 100})
        if shaped.done_reason == "stop": # else the document was cut off
            assert isinstance(json.loads(shaped.response), dict), shaped
    vectors = client.embed("default", ["curl", "a wolf"]).embeddings
    assert len(vectors) == 2 and all(abs(sum(x * x for x in v) - 1) < 1e-5 for v in vectors)
    older = client.embeddings("default", "curl").embedding
    scale = sum(x * x for x in older) ** 0.5
    assert all(abs(x / scale - y) < 1e-5 for x, y in zip(older, vectors[0]))
    assert [model.model for model in client.list().models] == ["default"]
    assert [model.name for model in client.ps().models] == ["default"]
    shown = client.show("default")
    assert shown.modelinfo["general.architecture"] == "gemma3_text", shown
    assert "completion" in shown.capabilities
    for call, words in (
            (lambda: client.chat("another", messages=QUESTION), ("another", "404")),
            (lambda: client.generate("default", "a", suffix="b"), ("suffix", "400")),
            (lambda: client.chat("default", messages=[{**QUESTION[0], "images": [b"a"]}]),
             ("images", "400")),
            (lambda: ollama.Client(host=address).list(), ("key", "401"))):
        raises(ollama.ResponseError, call, *words)


def main():
    check = {"anthropic": check_anthropic, "ollama": check_ollama}[NAME]
    with served("--api-key", "sesame") as address:
        check(package, address)
    print(NAME, "passed")


main()
