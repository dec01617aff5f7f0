#!/usr/bin/env python3
"""Answers the templates of tests/text/jinja/jinja_cases.json by jinja2, as transformers sets it up.

    tools/make_jinja_cases.py        rewrites the file: "text" or "error" of every case

Needs jinja2 (the file's answers are those of version 3.1.6). To add a case, add {"template": ...}
to the file and run this.
"""

import datetime
import json
import pathlib

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

FILE = pathlib.Path(__file__).parent.parent / "tests/text/jinja/jinja_cases.json"


class Generation(jinja2.ext.Extension):
    """{% generation %} marks what a model wrote; the text is as without it."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("same"), [], [], body).set_lineno(line)

    def same(self, caller):
        return caller()


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def raise_exception(text):
    raise jinja2.exceptions.TemplateError(text)


def environment(now):
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = now.strftime
    return env


def answer(env, template, context):
    try:
        return {"template": template, "text": env.from_string(template).render(**context)}
    except Exception as error:  # whatever Python raises is the answer
        return {"template": template, "error": f"{type(error).__name__}: {error}"}


def main():
    given = json.loads(FILE.read_text())
    env = environment(datetime.datetime.fromisoformat(given["strftime_now"]))
    context = given["context"]
    cases = [answer(env, case["template"], context) for case in given["cases"]]
    lines = ",\n".join("  " + json.dumps(case, ensure_ascii=False) for case in cases)
    FILE.write_text(
        '{\n"strftime_now": %s,\n"context": %s,\n"cases": [\n%s\n]\n}\n'
        % (json.dumps(given["strftime_now"]), json.dumps(context, ensure_ascii=False), lines))


if __name__ == "__main__":
    main()
