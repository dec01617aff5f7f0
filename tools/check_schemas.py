#!/usr/bin/env python3
"""Checks constrained generation against JSON-Schema-Test-Suite.

    tools/check_schemas.py WALKER TOKENIZER_FOLDER [--suite FOLDER] [--walks N] [--drafts NAME...]

WALKER is build/tests/grammar_walker: a random model that writes documents under a schema's
constraint. The suite and the Python package jsonschema are what tools/setup-jsonschema puts into
build/jsonschema.
For every schema that is not refused

 - each finished document must parse and validate, by the Python package jsonschema, and
 - no instance that the suite calls invalid may be accepted.

Valid instances that are not accepted are counted: grammars may be stricter (src/grammar/schema.h).
Of the schemas that clients send (tests/grammar/client_schemas.json) none may be refused, and all
valid instances must be accepted. A document may have a name twice in an object, of which readers
take the last: those of tests/grammar/repeated_names.json often do, and must validate.

Returns 1 if a document or an instance is wrong, 77 without jsonschema or the suite.
"""

import argparse
import collections
import decimal
import glob
import json
import os
import subprocess
import sys

INSTALLED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "build", "jsonschema")
sys.path.insert(0, os.path.join(INSTALLED, "python"))

try:
    import jsonschema
except ImportError:
    print("check_schemas: the Python package jsonschema is not there: tools/setup-jsonschema")
    sys.exit(77)

VALIDATORS = {
    "draft4": "Draft4Validator", "draft6": "Draft6Validator", "draft7": "Draft7Validator",
    "draft2019-09": "Draft201909Validator", "draft2020-12": "Draft202012Validator",
    "clients": "Draft202012Validator", "repeated names": "Draft202012Validator",
}


def find_suite(folder):
    """The folder with tests/<draft>/*.json."""
    found = glob.glob(os.path.join(folder, "**", "tests", "draft2020-12"), recursive=True)
    return os.path.dirname(min(found, key=len)) if found else None


OWN = {  # files of tests/grammar; the first is made by tools/make_client_schemas.py
    "clients": "client_schemas.json", "repeated names": "repeated_names.json",
}


def find_cases(suite, draft):
    """All (name, schema, tests) of a draft. Those of optional behaviour and of other servers'
    schemas are not of it."""
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "grammar")
    paths = glob.glob(os.path.join(suite, draft, "*.json"))
    if draft in OWN:
        paths = [os.path.join(here, OWN[draft])]
    for path in sorted(paths):
        with open(path, encoding="utf-8") as file:
            for case in json.load(file):
                name = f"{draft}/{os.path.basename(path)}: {case['description']}"
                yield name, case["schema"], case["tests"]


class Walker:
    """The random model, as a process that answers line by line."""

    def __init__(self, path, tokenizer):
        self.process = subprocess.Popen([path, tokenizer], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"check_schemas: the walker ended: {request['schema'][:500]}")
        return json.loads(line)


def check_multiple(validator, divisor, instance, schema):
    """multipleOf by the decimal digits, as the definition has it: the package divides doubles."""
    if not validator.is_type(instance, "number"):
        return
    with decimal.localcontext() as context:
        context.prec = 400
        if decimal.Decimal(repr(instance)) % decimal.Decimal(repr(divisor)):
            yield jsonschema.ValidationError(f"{instance!r} is not a multiple of {divisor}")


def check_documents(validator, walks, tally):
    """The finished documents that do not validate."""
    for walk in walks:
        tally["documents"] += 1
        if not walk["finished"]:
            tally["unfinished"] += 1
            continue
        counts = []
        try:
            document = json.loads(walk["text"], object_pairs_hook=lambda pairs: (
                counts.append(len(pairs) - len(dict(pairs))) or dict(pairs)))
            errors = [e.message for e in validator.iter_errors(document)]
        except ValueError as error:
            errors = [f"no JSON: {error}"]
        tally["with a name twice"] += any(counts)
        if errors:
            yield f"wrote {walk['text'][:300]!r}: {errors[0][:200]}"


def check_instances(tests, accepted, exact, tally):
    """The instances that are accepted and invalid; `exact`: those that are refused and valid, too.
    """
    for test, is_accepted in zip(tests, accepted):
        if test["valid"]:
            tally["valid"] += 1
            tally["valid, accepted"] += is_accepted
            if exact and not is_accepted:
                yield f"does not accept {json.dumps(test['data'])[:300]}"
        else:
            tally["invalid"] += 1
            if is_accepted:
                yield f"accepts {json.dumps(test['data'])[:300]}"


def check_case(walker, draft, name, schema, tests, options, tally, refusals):
    tally["schemas"] += 1
    answer = walker.ask(schema=json.dumps(schema), walks=options.walks, seed=tally["schemas"],
                        max_tokens=options.max_tokens,
                        instances=[json.dumps(test["data"]) for test in tests])
    if "error" in answer:
        tally["refused"] += 1
        refusals[answer["error"].split(": ", 1)[-1][:40] if answer["status"] != "MICA_EUNSUPPORTED"
                 else answer["error"].split(":")[0].rsplit("/", 1)[-1]] += 1
        if draft in OWN:
            print(f"{name}: {answer['error']}")
        return draft in OWN
    kind = getattr(jsonschema, VALIDATORS[draft])
    validator = jsonschema.validators.extend(kind, {"multipleOf": check_multiple})(schema)
    wrong = list(check_documents(validator, answer["walks"], tally))
    wrong += check_instances(tests, answer["accepted"], draft == "clients", tally)
    for line in wrong:
        print(f"{name}: {json.dumps(schema)[:300]}: {line}")
    return len(wrong)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("walker")
    parser.add_argument("tokenizer")
    parser.add_argument("--suite", default=os.path.join(INSTALLED, "suite"))
    parser.add_argument("--walks", type=int, default=20, help="documents of each schema")
    parser.add_argument("--max-tokens", type=int, default=800)
    parser.add_argument("--drafts", nargs="*", default=[*OWN, "draft2020-12"])
    options = parser.parse_args()
    suite = find_suite(options.suite)
    if not suite:
        print(f"check_schemas: JSON-Schema-Test-Suite is not below {options.suite}: "
              "tools/setup-jsonschema")
        return 77
    walker = Walker(options.walker, options.tokenizer)
    wrong = 0
    for draft in options.drafts:
        tally, refusals = collections.Counter(), collections.Counter()
        for name, schema, tests in find_cases(suite, draft):
            wrong += check_case(walker, draft, name, schema, tests, options, tally, refusals)
        print(f"{draft}: {dict(tally)}")
        print(f"{draft}: refused for {dict(refusals.most_common(12))}")
        if not tally["with a name twice" if draft == "repeated names" else "documents"]:
            print(f"check_schemas: {draft}: nothing was checked")
            wrong += 1
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
