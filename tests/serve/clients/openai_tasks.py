#!/usr/bin/env python3
"""OpenAI's own client against a server of the default model: embeddings, responses, files and
batches.

   openai_tasks.py MICA FOLDER
"""
import json
import math
import time

from serving import MODEL, find, raises, run, served

openai = find("openai")


def refused(create, named):
    raises(openai.BadRequestError, create, named)


def check_embeddings(client):
    texts = ["What is curl?", "The sea is wide."]
    made = client.embeddings.create(model="default", input=texts)  # as base64
    plain = client.embeddings.create(model="default", input=texts, encoding_format="float")
    for i, text in enumerate(texts):
        vector = made.data[i].embedding
        assert vector == plain.data[i].embedding
        ours = json.loads(run("embed", "--quiet", "--normalise", "--model", MODEL,
                              stdin=text))["embedding"]
        assert all(abs(a - b) < 1e-6 for a, b in zip(vector, ours)) and len(vector) == len(ours)
        assert abs(sum(x * x for x in vector) - 1) < 1e-5
    short = client.embeddings.create(model="default", input=texts[0], dimensions=8)
    length = math.sqrt(sum(x * x for x in plain.data[0].embedding[:8]))
    assert all(abs(a - b / length) < 1e-6 for a, b in zip(short.data[0].embedding,
                                                          plain.data[0].embedding))
    assert made.usage.prompt_tokens == made.usage.total_tokens > 0
    refused(lambda: client.embeddings.create(model="default", input=""), "input")
    refused(lambda: client.embeddings.create(model="default", input="a", dimensions=9999),
            "dimensions")


def check_response_tools(client):
    """A forced call, whole and streamed, and the next response, which has it and its output."""
    weather = {"type": "function", "name": "weather", "strict": True, "description": "of a city",
               "parameters": {"type": "object", "additionalProperties": False,
                              "required": ["city"],
                              "properties": {"city": {"enum": ["Oslo", "Rome"]}}}}
    asked = dict(model="default", input="What is curl?", tools=[weather], temperature=0,
                 tool_choice={"type": "function", "name": "weather"})
    whole = client.responses.create(**asked)
    call = whole.output[0]
    assert len(whole.output) == 1 and call.type == "function_call" and call.name == "weather"
    assert json.loads(call.arguments)["city"] in ("Oslo", "Rome")
    with client.responses.stream(**asked) as stream:
        types = [event.type for event in stream]
        final = stream.get_final_response()
    assert types.count("response.function_call_arguments.delta") > 1, types
    assert "response.function_call_arguments.done" in types
    assert final.output[0].arguments == call.arguments
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "cold"}
    more = client.responses.create(model="default", previous_response_id=whole.id, input=[result],
                                   tools=[weather], temperature=0, max_output_tokens=8)
    same = client.responses.create(
        model="default", tools=[weather], temperature=0, max_output_tokens=8,
        input=[{"role": "user", "content": "What is curl?"}, call.model_dump(), result])
    assert more.output_text == same.output_text
    referred = client.responses.create(
        model="default", tools=[weather], temperature=0, max_output_tokens=8, store=False,
        input=[{"role": "user", "content": "What is curl?"},
               {"type": "item_reference", "id": call.id}, result])
    assert referred.output_text == same.output_text
    items = client.responses.input_items.list(more.id, order="asc").data
    assert [item.type for item in items] == ["function_call_output"], items
    assert more.usage.input_tokens == same.usage.input_tokens > whole.usage.input_tokens


def check_responses(client):
    question = "What is curl?"
    whole = client.responses.create(model="default", input=question, temperature=0,
                                    metadata={"a": "b"})
    assert whole.output_text == run("run", "--model", MODEL, question)
    assert whole.status == "completed" and whole.metadata == {"a": "b"}
    assert whole.usage.total_tokens == whole.usage.input_tokens + whole.usage.output_tokens
    text, types = "", []
    for event in client.responses.create(model="default", input=question, temperature=0,
                                         stream=True):
        types.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta
    assert text == whole.output_text == event.response.output_text
    assert types[0] == "response.created" and types[-1] == "response.completed"
    with client.responses.stream(model="default", input=question, temperature=0) as stream:
        for event in stream:
            pass
        assert stream.get_final_response().output_text == text
    chat = [{"role": "user", "content": question}, {"role": "assistant", "content": text},
            {"role": "user", "content": "Why?"}]
    more = client.responses.create(model="default", previous_response_id=whole.id, input="Why?",
                                   temperature=0, store=False)
    same = client.responses.create(model="default", input=chat, temperature=0, store=False)
    assert more.output_text == same.output_text
    # The output of a response is input of the next one.
    again = client.responses.create(
        model="default", temperature=0, store=False,
        input=[chat[0], *(item.model_dump() for item in whole.output), chat[2]])
    assert again.output_text == same.output_text
    assert client.responses.retrieve(whole.id).output_text == whole.output_text
    client.responses.delete(whole.id)
    for missing in (whole.id, more.id):
        raises(openai.NotFoundError, lambda: client.responses.retrieve(missing))
    refused(lambda: client.responses.create(model="default", input=question, background=True),
            "background")
    # A tool that the server would have to run is left out, which a header tells.
    raw = client.responses.with_raw_response.create(model="default", input=question, temperature=0,
                                                    tools=[{"type": "web_search"}])
    assert raw.headers["mica-left-out"] == "tools: web_search", raw.headers
    assert raw.parse().output_text == text


def check_batches(client):
    lines = [{"custom_id": f"c{i}", "method": "POST", "url": "/v1/responses",
              "body": {"model": "default", "input": f"{i}?", "temperature": 0,
                       "max_output_tokens": 8, **({"colour": 1} if i == 3 else {})}}
             for i in range(12)]
    content = "".join(json.dumps(line) + "\n" for line in lines)
    file = client.files.create(file=("in.jsonl", content.encode()), purpose="batch")
    assert client.files.content(file.id).text == content
    assert client.files.retrieve(file.id).bytes == len(content)
    batch = client.batches.create(input_file_id=file.id, endpoint="/v1/responses",
                                  completion_window="24h", metadata={"a": "b"})
    for _ in range(600):
        batch = client.batches.retrieve(batch.id)
        if batch.status == "completed":
            break
        time.sleep(0.1)
    assert batch.status == "completed" and batch.metadata == {"a": "b"}, batch
    assert (batch.request_counts.total, batch.request_counts.failed) == (12, 1)
    made = {}
    for line in client.files.content(batch.output_file_id).text.splitlines():
        made[json.loads(line)["custom_id"]] = json.loads(line)["response"]["body"]
    for i in (0, 5, 11):
        direct = client.responses.create(**lines[i]["body"])
        assert direct.output_text == made[f"c{i}"]["output"][0]["content"][0]["text"]
    assert "colour" in client.files.content(batch.error_file_id).text
    assert [b.id for b in client.batches.list(limit=1)] == [batch.id]
    assert client.files.delete(file.id).deleted
    assert file.id not in [f.id for f in client.files.list()]
    raises(openai.ConflictError, lambda: client.batches.cancel(batch.id))
    refused(lambda: client.files.create(file=("a", b"b"), purpose="fine-tune"), "purpose")


def main():
    with served() as address:
        client = openai.OpenAI(base_url=address + "/v1", api_key="none")
        check_embeddings(client)
        check_responses(client)
        check_response_tools(client)
        check_batches(client)
    print("openai", openai.__version__, "passed")


main()
