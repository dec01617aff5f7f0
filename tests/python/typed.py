"""What a user writes, for mypy's strict mode: types are what help() says. It is not run."""
from typing import List, Optional

import mica


def greet(name: str, times: int = 1) -> str:
    """Greets."""
    return name * times


def answers(model: mica.Model) -> str:
    said: List[str] = []
    for token in model.chat("What is curl?", max_tokens=10, temperature=0.5, tools=[greet]):
        said.append(token)
        identity: int = token.id
        assert identity >= -1
    stream = model.generate("The sea", stop=["."], logprobs=True)
    finish: Optional[str] = stream.finish
    rate: float = stream.metrics.decode_rate
    return stream.read() + str(finish) + str(rate)


async def later(model: mica.Model) -> str:
    return "".join([token async for token in model.chat("Hi")])


def tasks(model: mica.Model) -> float:
    vectors: mica.HostArray = model.embed(["a", "b"])
    relevant: List[float] = model.rerank("a", ["b"])
    return relevant[0] + float(vectors.size) + model.score("a").perplexity


def arrays() -> List[float]:
    with mica.Scope():
        x = mica.asarray([1.0, 2.0])
        loss = (x * x + 1).sum()
        gradient: mica.Array = mica.grad(loss, [x])[0]
        values: List[float] = gradient.tolist()
        return values


def training() -> float:
    result = mica.tune("model", [{"text": "a"}], iterations=1, watch=lambda report: None)
    return result.train_loss
