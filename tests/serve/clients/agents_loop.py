#!/usr/bin/env python3
"""openai-agents: an agent calls a tool, is told what it gave, and answers.

   agents_loop.py MICA FOLDER

By /v1/chat/completions and by /v1/responses, whole and streamed. The first call is required; the
SDK then lets the model choose, and the default model answers with text.
"""
import asyncio
import os

from serving import find, served

os.environ.update(OPENAI_API_KEY="none", OPENAI_AGENTS_DISABLE_TRACING="1")
find("agents")
import agents
import openai
from pydantic import BaseModel, ConfigDict, Field

called = []


@agents.function_tool
def weather(days: int) -> str:
    """The weather of some days."""
    called.append(days)
    return "sun"


class Report(BaseModel):
    model_config = ConfigDict(extra="forbid")
    days: int = Field(ge=1, le=9)


async def check(model):
    settings = agents.ModelSettings(tool_choice="required", max_tokens=100, temperature=0)
    agent = agents.Agent(name="forecaster", instructions="You know the weather.", model=model,
                         tools=[weather], model_settings=settings)
    for streamed in (False, True):
        called.clear()
        if streamed:
            result = agents.Runner.run_streamed(agent, "What is curl?", max_turns=4)
            kinds = [event.type async for event in result.stream_events()]
            assert "raw_response_event" in kinds and "run_item_stream_event" in kinds, kinds
        else:
            result = await agents.Runner.run(agent, "What is curl?", max_turns=4)
        types = [item.type for item in result.new_items]
        assert types[:2] == ["tool_call_item", "tool_call_output_item"], types
        assert types[-1] == "message_output_item" and result.final_output, types
        assert len(called) == 1 and isinstance(called[0], int), called
        # What was said goes on.
        more = result.to_input_list() + [{"role": "user", "content": "Why?"}]
        plain = agents.Agent(name="other", model=model)
        assert (await agents.Runner.run(plain, more)).final_output
    shaped = agents.Agent(name="reporter", model=model, output_type=Report)
    made = await agents.Runner.run(shaped, "What is curl?")
    assert isinstance(made.final_output, Report), made


async def main():
    with served() as address:
        client = openai.AsyncOpenAI(base_url=address + "/v1", api_key="none", max_retries=0)
        await check(agents.OpenAIChatCompletionsModel("default", client))
        await check(agents.OpenAIResponsesModel("default", client))
    print("openai-agents with openai", openai.__version__, "passed")


asyncio.run(main())
