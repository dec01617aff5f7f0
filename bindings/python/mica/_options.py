"""What is said to a model: messages, tools, constraints and the options of answers."""
from __future__ import annotations

import ctypes
import inspect
import json
import typing
from typing import (Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, TypedDict,
                    Union)

from . import _c
from ._library import InvalidError, UnsupportedError, ints, options, text

Message = Mapping[str, Any]
Messages = Union[str, Message, Sequence[Message]]
Tool = Union[Mapping[str, Any], Callable[..., Any]]
Schema = Union[str, Mapping[str, Any], type]


class GenerateOptions(TypedDict, total=False):
    """Options of an answer; what is left out is the default (mica_generate_options)."""

    max_tokens: int
    min_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    penalty_window: int
    logit_bias: Mapping[int, float]
    seed: int
    stop: Union[str, int, Sequence[Union[str, int]]]
    draft_tokens: int
    ignore_eos: bool
    logprobs: bool
    top_logprobs: int
    echo: bool
    truncate: bool
    continue_last: bool
    template_variables: Mapping[str, Any]
    tools: Sequence[Tool]
    json: bool
    schema: Schema
    regex: str
    choice: Sequence[str]
    grammar: str


# ---- messages ----

def message_list(messages: Messages) -> List[Message]:
    if isinstance(messages, str):
        return [{"role": "user", "content": messages}]
    return [messages] if isinstance(messages, Mapping) else list(messages)


def _content(value: Any) -> Optional[str]:
    """A message's text, which OpenAI's clients may give as a list of parts."""
    if value is None or isinstance(value, str):
        return value
    parts = []
    for part in value:
        if part.get("type") != "text":
            raise UnsupportedError("a message has a part of type %r: models of mica take texts"
                                   % part.get("type"))
        parts.append(part["text"])
    return "".join(parts)


def _calls(values: Sequence[Mapping[str, Any]]) -> Any:
    calls = (_c.mica_tool_call * len(values))()
    for call, value in zip(calls, values):
        function = value.get("function", value)
        arguments = function.get("arguments", {})
        call.name = text(function["name"])
        call.arguments = text(arguments if isinstance(arguments, str) else json.dumps(arguments))
        call.id = text(value["id"]) if value.get("id") else None
    return calls


KEYS = {"role", "content", "name", "thoughts", "reasoning_content", "tool_calls", "tool_call_id",
        "refusal", "annotations", "audio", "function_call"}


def message_array(messages: Messages) -> Tuple[Any, int]:
    """An array of mica_message, which holds all that it points at, and its length."""
    values = message_list(messages)
    array = (_c.mica_message * max(1, len(values)))()
    for struct, value in zip(array, values):
        unknown = set(value) - KEYS
        if unknown:
            raise InvalidError("a message has no %r" % sorted(unknown)[0])
        struct.struct_bytes = ctypes.sizeof(_c.mica_message)
        thoughts = value.get("thoughts", value.get("reasoning_content"))
        for name, given in (("role", value.get("role")), ("content", _content(value.get("content"))),
                            ("name", value.get("name")), ("thoughts", thoughts),
                            ("tool_call_id", value.get("tool_call_id"))):
            setattr(struct, name, text(given) if given is not None else None)
        if value.get("tool_calls"):
            calls = _calls(value["tool_calls"])
            struct.tool_calls = calls
            struct.tool_call_count = len(calls)
    return array, len(values)


# ---- tools ----

_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array",
               dict: "object", type(None): "null"}


def _annotation_schema(note: Any) -> Dict[str, Any]:
    if note is inspect.Parameter.empty or note is Any:
        return {}
    if hasattr(note, "model_json_schema"):
        return dict(note.model_json_schema())
    if note in _JSON_TYPES:
        return {"type": _JSON_TYPES[note]}
    origin, arguments = getattr(note, "__origin__", None), getattr(note, "__args__", ())
    if origin in (list, tuple, set) or origin is getattr(Sequence, "__origin__", None):
        return {"type": "array", **({"items": _annotation_schema(arguments[0])} if arguments else {})}
    if origin in (dict, getattr(Mapping, "__origin__", None)):
        return {"type": "object"}
    if str(origin) == "typing.Literal":
        return {"enum": list(arguments)}
    if arguments:  # a union
        return {"anyOf": [_annotation_schema(one) for one in arguments]}
    return {}


def tool_of(tool: Tool) -> Dict[str, Any]:
    """A tool as chat templates take it: as it is given, or of a function's signature, whose
    docstring is the description."""
    if isinstance(tool, Mapping):
        return dict(tool)
    try:
        notes = typing.get_type_hints(tool)
    except (NameError, TypeError):
        notes = {}
    properties, required = {}, []
    for name, parameter in inspect.signature(tool).parameters.items():
        properties[name] = _annotation_schema(notes.get(name, parameter.annotation))
        if parameter.default is inspect.Parameter.empty:
            required.append(name)
    return {"type": "function", "function": {
        "name": tool.__name__, "description": inspect.getdoc(tool) or "",
        "parameters": {"type": "object", "properties": properties, "required": required}}}


# ---- constraints ----

def schema_text(schema: Schema) -> str:
    """The text of a JSON schema: a text, a mapping, or a class of pydantic's."""
    if isinstance(schema, str):
        return schema
    if isinstance(schema, Mapping):
        return json.dumps(schema)
    for name in ("model_json_schema", "schema"):  # pydantic 2 and 1
        if hasattr(schema, name):
            return json.dumps(getattr(schema, name)())
    if hasattr(schema, "__pydantic_core_schema__") or hasattr(schema, "__dataclass_fields__"):
        from pydantic import TypeAdapter  # type: ignore[import-not-found,unused-ignore]
        return json.dumps(TypeAdapter(schema).json_schema())
    raise InvalidError("schema is a JSON schema, its text, or a class of pydantic's, not %r" % schema)


def parsed(schema: Optional[Schema], answer: str) -> Any:
    """What an answer says by a schema: an object of pydantic's, else what json makes of it."""
    if isinstance(schema, type) and hasattr(schema, "model_validate_json"):
        return schema.model_validate_json(answer)
    if isinstance(schema, type) and hasattr(schema, "parse_raw"):
        return schema.parse_raw(answer)
    if isinstance(schema, type) and hasattr(schema, "__dataclass_fields__"):
        from pydantic import TypeAdapter
        return TypeAdapter(schema).validate_json(answer)
    return json.loads(answer)


_CONSTRAINTS: List[Tuple[str, str, Callable[[Any], Optional[str]]]] = [
    ("json", "json_object", lambda value: None),
    ("schema", "json_schema", schema_text),
    ("regex", "regex", str),
    ("choice", "choice", lambda value: json.dumps(list(value))),
    ("grammar", "grammar", str),
]


def _constrain(struct: Any, values: Dict[str, Any]) -> None:
    given = [row for row in _CONSTRAINTS if values.get(row[0])]
    if len(given) > 1:
        raise InvalidError("an answer has one constraint: %s and %s are two"
                           % (given[0][0], given[1][0]))
    for name, kind, to_text in given:
        struct.constraint = _c.mica_constraint_kind[kind]
        said = to_text(values[name])
        struct.constraint_text = text(said) if said is not None else None


# ---- options of answers ----

def generate_options(values: Mapping[str, Any]) -> Any:
    """mica_generate_options, which holds all that it points at."""
    rest = dict(values)
    unknown = set(rest) - set(GenerateOptions.__annotations__)
    if unknown:
        raise TypeError("there is no option %r of answers: %s" % (
            sorted(unknown)[0], ", ".join(GenerateOptions.__annotations__)))
    bias, stop = rest.pop("logit_bias", None), rest.pop("stop", None)
    tools, variables = rest.pop("tools", None), rest.pop("template_variables", None)
    constraint = {name: rest.pop(name, None) for name, _, _ in _CONSTRAINTS}
    struct = options(_c.mica_generate_options, rest)
    if bias:
        struct.logit_bias = (_c.mica_logit_bias * len(bias))(
            *(_c.mica_logit_bias(i, b) for i, b in zip(ints(bias), bias.values())))
        struct.logit_bias_count = len(bias)
    if stop is not None:
        _stop(struct, [stop] if isinstance(stop, (str, int)) else list(stop))
    if tools:
        struct.tools = text(json.dumps([tool_of(tool) for tool in tools]))
    if variables:
        struct.template_variables = text(json.dumps(variables))
    _constrain(struct, constraint)
    return struct


def _stop(struct: Any, stops: List[Union[str, int]]) -> None:
    ids = [stop for stop in stops if isinstance(stop, int)]
    texts = [text(stop) for stop in stops if isinstance(stop, str)]
    struct.stop_ids = ints(ids)
    struct.stop_count = len(ids)
    struct.stop_strings = (ctypes.c_char_p * len(texts))(*texts)
    struct.stop_string_count = len(texts)
