"""Writes tests/grammar/client_schemas.json: schemas as clients send them, in the form of
JSON-Schema-Test-Suite. Needs pydantic 2.

    python tools/make_client_schemas.py > tests/grammar/client_schemas.json

The instances that are valid come from pydantic's models themselves (model_dump), the others are
written down here; jsonschema judges both when tools/check_schemas.py runs.
"""

import datetime
import decimal
import enum
import ipaddress
import json
import uuid
from typing import Annotated, Dict, List, Literal, Optional, Set, Tuple, Union

import pydantic
from pydantic import AnyUrl, BaseModel, ConfigDict, Field, HttpUrl


class Color(str, enum.Enum):
    RED = "red"
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Address(BaseModel):
    model_config = ConfigDict(extra="forbid")
    street: str = Field(min_length=1, max_length=40)
    zip: str = Field(pattern=r"^\d{5}(-\d{4})?$")
    country: Literal["DE", "FR", "US"] = "DE"


class Person(BaseModel):
    """A person."""
    name: str = Field(description="all names", examples=["Ada"])
    age: Optional[int] = Field(default=None, ge=0, le=150)
    address: Optional[Address] = None
    tags: List[str] = Field(default_factory=list, max_length=3)
    favourite: Color = Color.RED
    level: Level = Level.LOW


class Formats(BaseModel):
    when: datetime.datetime
    day: datetime.date
    clock: datetime.time
    took: datetime.timedelta
    id: uuid.UUID
    site: AnyUrl
    page: HttpUrl
    host: ipaddress.IPv4Address
    secret: pydantic.SecretStr
    blob: bytes


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = Field(gt=0, lt=10)


class Dog(BaseModel):
    kind: Literal["dog"]
    weight: float = Field(ge=0.5, le=90)


class Owner(BaseModel):
    pet: Annotated[Union[Cat, Dog], Field(discriminator="kind")]
    other: Union[Cat, Dog, None]


class Node(BaseModel):
    value: int
    children: List["Node"] = []


class Numbers(BaseModel):
    price: decimal.Decimal = Field(ge=0)
    step: int = Field(multiple_of=5, ge=0, le=100)
    cents: Annotated[float, Field(multiple_of=0.25, ge=0)]
    ratio: float


class Containers(BaseModel):
    pair: Tuple[int, str]
    many: Tuple[int, ...] = Field(min_length=2)
    scores: Dict[str, float]
    by_color: Dict[Color, int]
    by_key: Dict[Annotated[str, Field(pattern=r"^[a-z]{2}$")], bool]
    choice: Set[Color]
    few: Annotated[List[Annotated[int, Field(ge=0)]], Field(min_length=1, max_length=2)]


PERSON = Person(name="Ada", age=36, address=Address(street="Main", zip="12345"), tags=["x"])
CASES = [
    (Person, [PERSON, Person(name="B", address=None)],
     [{}, {"name": 1}, {"name": "A", "age": 151}, {"name": "A", "favourite": "blue"},
      {"name": "A", "address": {"street": "", "zip": "12345"}},
      {"name": "A", "address": {"street": "S", "zip": "1234"}},
      {"name": "A", "address": {"street": "S", "zip": "12345", "x": 1}},
      {"name": "A", "tags": ["1", "2", "3", "4"]}, {"name": "A", "level": 3}]),
    (Formats, [], [{}, {"when": 1}]),
    (Owner, [Owner(pet=Cat(kind="cat", lives=9), other=None),
             Owner(pet=Dog(kind="dog", weight=2.5), other=Cat(kind="cat", lives=1))],
     [{"pet": {"kind": "cow"}, "other": None}, {"pet": {"kind": "cat", "lives": 10}, "other": None},
      {"pet": {"kind": "dog", "lives": 1}, "other": None},
      {"pet": {"kind": "dog", "weight": 0.25}, "other": None}]),
    (Node, [Node(value=1, children=[Node(value=2)])],
     [{"value": 1, "children": [{"children": []}]}, {"value": "1"}]),
    (Numbers, [Numbers(price=decimal.Decimal("1.5"), step=15, cents=0.75, ratio=-1e-3)],
     [{"price": 1, "step": 7, "cents": 1, "ratio": 0}, {"price": 1, "step": 105, "cents": 1, "ratio": 0},
      {"price": 1, "step": 5, "cents": 0.3, "ratio": 0}, {"price": -1, "step": 5, "cents": 1, "ratio": 0}]),
    (Containers, [Containers(pair=(1, "a"), many=(1, 2, 3), scores={"a": 0.5}, by_color={"red": 1},
                             by_key={"ab": True}, choice={"red"}, few=[0])],
     [{}]),
]


def openai_strict(schema):
    """As the openai client's strict mode changes it: all is required, and nothing more."""
    if isinstance(schema, dict):
        schema = {key: openai_strict(value) for key, value in schema.items() if key != "default"}
        if schema.get("type") == "object" and "properties" in schema:
            schema["additionalProperties"] = False
            schema["required"] = list(schema["properties"])
    elif isinstance(schema, list):
        schema = [openai_strict(value) for value in schema]
    return schema


def test(data, valid):
    return {"description": "valid" if valid else "invalid", "data": data, "valid": valid}


def main():
    cases = []
    for model, good, bad in CASES:
        tests = [test(json.loads(m.model_dump_json()), True) for m in good]
        tests += [test(data, False) for data in bad]
        schema = model.model_json_schema()
        cases.append({"description": model.__name__, "schema": schema, "tests": tests})
        cases.append({"description": f"{model.__name__}, strict", "schema": openai_strict(schema),
                      "tests": tests})
    print(json.dumps(cases, indent=1))


if __name__ == "__main__":
    main()
