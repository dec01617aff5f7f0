#!/usr/bin/env python3
"""langchain-openai: chats, tools, structured output, texts and embeddings.

   langchain_chats.py MICA FOLDER
"""
import asyncio
import json
import os

from serving import MODEL, find, run, served

os.environ.update(OPENAI_API_KEY="none", HF_HUB_OFFLINE="1", LANGSMITH_TRACING="false")
find("langchain_openai")
import openai
import tiktoken
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
from pydantic import BaseModel, Field

QUESTION = "What is curl?"


@tool
def weather(days: int) -> str:
    """The weather of some days."""
    return f"{days} days of sun"


class Weather(BaseModel):
    """The weather."""
    days: int = Field(ge=1, le=9)
    note: str | None = Field(default=None, max_length=20)


def added(pieces):
    whole = None
    for piece in pieces:
        whole = piece if whole is None else whole + piece
    return whole


def check_chats(model):
    expected = run("run", "--model", MODEL, QUESTION)
    whole = model.invoke(QUESTION)
    assert whole.content == expected and whole.response_metadata["finish_reason"] == "stop"
    usage = whole.usage_metadata
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"] > 0
    streamed = added(model.stream(QUESTION, stream_usage=True))
    assert streamed.content == expected, streamed
    assert streamed.usage_metadata["total_tokens"] == usage["total_tokens"], streamed
    assert asyncio.run(model.ainvoke(QUESTION)).content == expected
    both = model.batch([QUESTION, "Hello"])
    assert both[0].content == expected and both[1].content
    logprobs = model.bind(logprobs=True, top_logprobs=2).invoke(QUESTION)
    content = logprobs.response_metadata["logprobs"]["content"]
    assert len(content) == usage["output_tokens"] and len(content[0]["top_logprobs"]) == 2


def check_tools(model):
    for choice in ("weather", "any"):
        bound = model.bind_tools([weather], tool_choice=choice, strict=True)
        for answer in (bound.invoke(QUESTION, max_tokens=100),
                       added(bound.stream(QUESTION, max_tokens=100))):
            call = answer.tool_calls[0]
            assert call["name"] == "weather" and isinstance(call["args"]["days"], int), answer
    # The call and what it gave are part of the conversation.
    told = ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"])
    after = model.invoke([HumanMessage(QUESTION), answer, told], max_tokens=8)
    before = model.invoke([HumanMessage(QUESTION)], max_tokens=8)
    assert after.usage_metadata["input_tokens"] > before.usage_metadata["input_tokens"]
    shown = model.bind_tools([weather]).invoke(QUESTION, max_tokens=8)
    assert shown.usage_metadata["input_tokens"] > before.usage_metadata["input_tokens"] + 9


def check_forms(model):
    for method in ("json_schema", "function_calling"):
        shaped = model.with_structured_output(Weather, method=method)
        assert isinstance(shaped.invoke(QUESTION, max_tokens=200), Weather)
        *_, last = shaped.stream(QUESTION, max_tokens=200)
        assert Weather.model_validate(last if isinstance(last, dict) else last.model_dump())
    said = model.bind(response_format={"type": "json_object"}).invoke(QUESTION, max_tokens=200)
    assert isinstance(json.loads(said.content), dict), said


def check_responses(model):
    expected = run("run", "--model", MODEL, QUESTION)
    assert model.invoke(QUESTION).text == expected
    assert added(model.stream(QUESTION)).text == expected
    assert isinstance(model.with_structured_output(Weather).invoke(QUESTION), Weather)


def check_texts(options):
    model = OpenAI(**options, temperature=0, max_tokens=8)
    expected = run("generate", "--model", MODEL, "--max-tokens", "8", "curl is")
    assert model.invoke("curl is").strip() == expected
    assert "".join(model.stream("curl is")).strip() == expected
    made = model.generate(["curl is", "The sea"]).generations
    assert made[0][0].text.strip() == expected and made[1][0].text


def check_embeddings(options, plain):
    texts = ["What is curl?", "The sea is wide."]
    expected = [item.embedding for item in
                plain.embeddings.create(model="default", input=texts).data]
    as_texts = OpenAIEmbeddings(**options, check_embedding_ctx_length=False)
    assert as_texts.embed_documents(texts) == expected
    assert as_texts.embed_query(texts[0]) == expected[0]
    # Cut to the context by the model's own tokenizer, here.
    counted = OpenAIEmbeddings(**options, tiktoken_enabled=False, tiktoken_model_name=MODEL)
    assert counted.embed_documents(texts) == expected
    # By tiktoken, whose token ids are sent: an encoding of bytes stands for OpenAI's own.
    tiktoken.encoding_for_model = lambda name: tiktoken.Encoding(
        "bytes", pat_str=r"[\s\S]", mergeable_ranks={bytes([i]): i for i in range(256)},
        special_tokens={})
    ids = [list(text.encode()) for text in texts]
    expected = [item.embedding for item in
                plain.embeddings.create(model="default", input=ids).data]
    as_ids = OpenAIEmbeddings(**options)
    for made, sent in zip(as_ids.embed_documents(texts), expected):
        assert all(abs(a - b) < 1e-6 for a, b in zip(made, sent)) and len(made) == len(sent)
    short = OpenAIEmbeddings(**options, check_embedding_ctx_length=False, dimensions=8)
    assert len(short.embed_query(texts[0])) == 8


def main():
    with served() as address:
        options = {"model": "default", "base_url": address + "/v1", "max_retries": 0}
        model = ChatOpenAI(**options, temperature=0)
        check_chats(model)
        check_tools(model)
        check_forms(model)
        check_responses(ChatOpenAI(**options, temperature=0, use_responses_api=True))
        check_texts(options)
        check_embeddings(options, openai.OpenAI(base_url=address + "/v1", max_retries=0))
    print("langchain_openai with openai", openai.__version__, "passed")


main()
