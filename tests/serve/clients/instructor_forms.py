#!/usr/bin/env python3
"""instructor: documents of pydantic's models, by forced tools and by JSON schemas.

   instructor_forms.py MICA FOLDER

The default model knows nothing of what it is asked: whatever it answers must be of the form.
"""
import enum
from typing import Literal, Optional, Union

from serving import find, raises, served

find("instructor")
import instructor
from instructor.core import exceptions
import openai
from pydantic import BaseModel, Field

QUESTION = [{"role": "user", "content": "What is curl?"}]


class Kind(enum.Enum):
    TOOL = "tool"
    LIBRARY = "library"


class Weather(BaseModel):
    """The weather of some days."""
    days: int = Field(ge=1, le=9)
    sky: Literal["clear", "cloudy"]


class Package(BaseModel):
    name: str = Field(min_length=1, max_length=8)
    kind: Kind
    free: Optional[bool] = None
    size: Union[int, Literal["unknown"]]
    weathers: list[Weather] = Field(min_length=1, max_length=2)


def check_modes(plain):
    modes = instructor.Mode
    for mode in (modes.TOOLS, modes.TOOLS_STRICT, modes.JSON_SCHEMA):
        client = instructor.from_openai(plain, mode=mode)
        for form in (Weather, Package):
            for seed in range(3):
                made, answer = client.chat.completions.create_with_completion(
                    model="default", messages=QUESTION, response_model=form, max_retries=0,
                    max_tokens=300, temperature=1, seed=seed)
                assert isinstance(made, form), made
                assert bool(answer.choices[0].message.tool_calls) == (mode != modes.JSON_SCHEMA)
    # A document's fields while they are written.
    client = instructor.from_openai(plain, mode=modes.TOOLS)
    request = {"model": "default", "messages": QUESTION, "max_tokens": 200, "seed": 1}
    *_, last = client.chat.completions.create_partial(**request, response_model=Weather)
    assert Weather.model_validate(last.model_dump()), last


def check_cut(plain):
    """A document that was cut off is none."""
    client = instructor.from_openai(plain, mode=instructor.Mode.TOOLS)
    raises(exceptions.IncompleteOutputException, lambda: client.chat.completions.create(
        model="default", messages=QUESTION, response_model=Package, max_retries=0, max_tokens=3))


def main():
    with served() as address:
        plain = openai.OpenAI(base_url=address + "/v1", api_key="none", max_retries=0)
        check_modes(plain)
        check_cut(plain)
    print("instructor", instructor.__version__, "with openai", openai.__version__, "passed")


main()
