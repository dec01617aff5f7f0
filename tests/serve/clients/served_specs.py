#!/usr/bin/env python3
"""schemathesis asks what the APIs' own OpenAPI documents allow, and what they forbid.

   served_specs.py MICA FOLDER VENDOR [COUNT]     VENDOR: openai or anthropic
                                                  COUNT: requests of each kind, 15

Every answer must be as its document says, each event of a stream too, or an error of the API's
form that names a field of the request. The requests are the same each time.
"""
import json
import sys

from serving import find, served

find("schemathesis")
import hypothesis
import jsonschema_rs
import requests
import schemathesis
import schemathesis.openapi
import specs
from schemathesis.generation import GenerationMode
from schemathesis.specs.openapi.checks import positive_data_acceptance

VENDOR = sys.argv[3]
COUNT = int(sys.argv[4]) if len(sys.argv) > 4 else 15
# What chance does not find: a batch's file, and a batch that has not ended.
NEVER_ANSWERED = {"POST /batches", "POST /batches/{batch_id}/cancel"}
HEADERS = {"anthropic-version": "2023-06-01"} if VENDOR == "anthropic" else {}
SETTINGS = hypothesis.settings(
    max_examples=COUNT, deadline=None, database=None, derandomize=True,
    phases=[hypothesis.Phase.explicit, hypothesis.Phase.generate],
    suppress_health_check=list(hypothesis.HealthCheck))


def check_events(case, response, validator):
    """Each event of a stream is as the document says."""
    events = [line[6:] for line in response.text.splitlines() if line.startswith("data: ")]
    if events and events[-1] == "[DONE]":
        events.pop()
    assert events, response.text
    for event in events:
        if event == '{"type":"ping"}':
            continue  # Anthropic's documentation has it, the document has not
        for error in validator.iter_errors(json.loads(event)):
            raise AssertionError(f"{event}\n{error}\n{case.body}")


def check_error(case, response):
    """A 400 names what is wrong by a field of the request, or by one that is missing."""
    error = response.json()["error"]
    if response.status_code != 400 or VENDOR != "openai" or not isinstance(case.body, dict):
        return
    if error["code"] == "unknown_field":
        return  # any text, which is shortened
    named = (error["param"] or "").split(".")[0].split("[")[0]
    missing = error["code"] == "missing_field" or named == "tools"
    assert missing or named in {*case.body, *(case.query or {})}, (error, case.body)


def check_operation(operation, mode, validator, known=None):
    """Asks, and counts the answers by their statuses. known: parameters of the path"""
    counts = {}

    @hypothesis.settings(SETTINGS, max_examples=3 if known else COUNT)
    @hypothesis.given(case=operation.as_strategy(mode, path_parameters=known))
    def ask(case):
        response = case.call(timeout=60, headers=HEADERS)
        counts[response.status_code] = counts.get(response.status_code, 0) + 1
        case.validate_response(response, excluded_checks=[positive_data_acceptance])
        if response.status_code != 200:
            check_error(case, response)
        elif "event-stream" in response.headers["content-type"][0]:
            check_events(case, response, validator)

    ask()
    return counts


def validators(document):
    """Of events, by operations"""
    made = {}
    for (method, path), name in specs.SERVED[VENDOR].items():
        schema = {"$ref": f"#/components/schemas/{name}",
                  "components": document.whole["components"]}
        made[f"{method.upper()} {path}"] = name and jsonschema_rs.validator_for(schema)
    return made


def prepare(address):
    """What operations may name by its id."""
    known = {"model": "default", "model_id": "default"}
    if VENDOR == "openai":
        line = {"custom_id": "a", "method": "POST", "url": "/v1/completions",
                "body": {"model": "default", "prompt": "a", "max_tokens": 1}}
        form = {"purpose": (None, "batch"), "file": ("a.jsonl", json.dumps(line))}
        made = requests.post(address + "/v1/files", files=form, timeout=60).json()
        known["file_id"] = made["id"]
        body = {"input_file_id": made["id"], "endpoint": "/v1/completions",
                "completion_window": "24h"}
        known["batch_id"] = requests.post(address + "/v1/batches", json=body,
                                          timeout=60).json()["id"]
        body = {"model": "default", "input": "a", "max_output_tokens": 4}
        known["response_id"] = requests.post(address + "/v1/responses", json=body,
                                             timeout=60).json()["id"]
    return known


def check_operations(address, document, mode, known=None, **reduction):
    events = validators(document)
    schema = schemathesis.openapi.from_dict(document.reduced(**reduction))
    schema.config.update(base_url=address + document.prefix)
    answered = set()
    operations = [found.ok() for found in schema.get_all_operations()]
    operations.sort(key=lambda found: found.method.upper() == "DELETE")  # what others ask for
    for operation in operations:
        if known is None and "requestBody" not in operation.definition.raw:
            continue  # bodies vary; the others have been asked
        counts = check_operation(operation, mode, events[operation.label])
        if known and "{" in operation.path:
            names = [name for name in known if f"{{{name}}}" in operation.path]
            counts.update(check_operation(operation, mode, events[operation.label],
                                          {name: known[name] for name in names}))
        print(operation.label, mode.name, reduction, counts, flush=True)
        if counts.get(200):
            answered.add(operation.label)
    return answered


def main():
    document = specs.Document(VENDOR)
    with served() as address:
        answered = check_operations(address, document, GenerationMode.POSITIVE, prepare(address),
                                    served=True, bounded=True)
        asked = {f"{method.upper()} {path}" for method, path in specs.SERVED[VENDOR]}
        assert asked - answered <= NEVER_ANSWERED, asked - answered
        check_operations(address, document, GenerationMode.POSITIVE, bounded=True)
        check_operations(address, document, GenerationMode.NEGATIVE, served=True)
    print(VENDOR, "passed")


main()
