#!/usr/bin/env python3
"""The command `llm` with mica as one of its OpenAI-compatible models.

   llm_command.py MICA FOLDER
"""
import json
import os
import tempfile

from serving import MODEL, find, run, served

find("llm")
FOLDER = tempfile.TemporaryDirectory()
os.environ.update(LLM_USER_PATH=FOLDER.name, OPENAI_API_KEY="none")
import click.testing
import llm.cli

QUESTION = "What is curl?"
MODELS = """
- model_id: mica
  model_name: default
  api_base: {address}/v1
  supports_schema: true
  supports_tools: true
- model_id: mica-text
  model_name: default
  api_base: {address}/v1
  completion: true
"""
# A text of any length may go on until no room is left.
SCHEMA = json.dumps({
    "type": "object",
    "properties": {"days": {"type": "integer"}, "sky": {"type": "string", "maxLength": 20}},
    "required": ["days", "sky"],
})
PLUGIN = '''
def days_left(month: int) -> str:
    "The days that are left in a month."
    return str(30 - month)
'''


def say(*words):
    """What the command prints, called in this process: its start takes seconds."""
    done = click.testing.CliRunner().invoke(llm.cli.cli, words)
    assert done.exit_code == 0, (words, done.output, done.exception)
    return done.output.strip()


def refused(named, *words):
    done = click.testing.CliRunner().invoke(llm.cli.cli, words)
    assert done.exit_code != 0 and named in done.output, (words, done.output)


def main():
    greedy = ("-m", "mica", "-o", "temperature", "0")
    with served() as address:
        with open(FOLDER.name + "/extra-openai-models.yaml", "w", encoding="utf-8") as file:
            file.write(MODELS.format(address=address))
        expected = run("run", "--model", MODEL, QUESTION)
        assert say(*greedy, QUESTION) == expected
        assert say(*greedy, "--no-stream", QUESTION) == expected
        logged = json.loads(say("logs", "--json", "-n", "1"))[0]
        assert logged["response"] == expected and logged["output_tokens"] > 0, logged
        # A conversation goes on.
        assert say("-c", "-o", "temperature", "0", "Why?")
        said = say("-m", "mica-text", "-o", "temperature", "0", "-o", "max_tokens", "8", "curl is")
        assert said == run("generate", "--model", MODEL, "--max-tokens", "8", "curl is")
        shaped = json.loads(say(*greedy, "--schema", SCHEMA, "Weather?"))
        assert isinstance(shaped["days"], int) and isinstance(shaped["sky"], str), shaped
        # Tools are shown to the model.
        assert say(*greedy, "--functions", PLUGIN, QUESTION)
        shown = json.loads(say("logs", "--json", "-n", "1"))[0]
        assert shown["input_tokens"] > logged["input_tokens"] + 9, (shown, logged)
        refused("reasoning_effort", *greedy, "-o", "reasoning_effort", "extreme", QUESTION)
    print("llm passed")


main()
