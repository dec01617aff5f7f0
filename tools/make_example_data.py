#!/usr/bin/env python3
"""Makes examples/data: weights, inputs and outputs of small networks, trained or run by PyTorch.

    python3 tools/make_example_data.py     (needs the Python packages torch and safetensors; made
                                            with torch 2.15)
"""
import math
import pathlib

import torch
from safetensors.torch import save_file
from torch.nn import functional as F

OUT = pathlib.Path(__file__).resolve().parent.parent / "examples/data"


def mlp():
    """Which of two spirals a point is on: a network trained by Adam, in nn.Linear's layout."""
    torch.manual_seed(1)
    t = torch.linspace(0.5, 3, 100)
    spiral = torch.stack([t * torch.cos(2 * t), t * torch.sin(2 * t)], 1)
    points = torch.cat([spiral, -spiral])
    labels = torch.cat([torch.zeros(100), torch.ones(100)]).long()
    net = torch.nn.Sequential(torch.nn.Linear(2, 32), torch.nn.Tanh(), torch.nn.Linear(32, 32),
                              torch.nn.Tanh(), torch.nn.Linear(32, 2))
    optimizer = torch.optim.Adam(net.parameters(), 0.02)
    for _ in range(400):
        optimizer.zero_grad()
        F.cross_entropy(net(points), labels).backward()
        optimizer.step()
    x = points[::25].contiguous()
    with torch.no_grad():
        y = net(x).softmax(-1)
    assert (net(points).argmax(-1) == labels).float().mean() > 0.97
    return net.state_dict() | {"x": x, "y": y}


def cnn():
    """Two convolutions, the second one of groups, pools and a classifier."""
    torch.manual_seed(2)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
        torch.nn.Conv2d(8, 16, 3, padding=1, groups=4), torch.nn.ReLU(),
        torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(16, 5))
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        return net.state_dict() | {"x": x, "y": net(x)}


def mamba():
    """A Mamba block after the paper's reference code, over a sequence as a whole."""
    torch.manual_seed(3)
    length, dim, inner, states, rank, taps = 24, 8, 16, 4, 2, 4
    w = {"in": torch.randn(2 * inner, dim) * 0.4, "conv": torch.randn(inner, 1, taps) * 0.5,
         "conv_bias": torch.randn(inner) * 0.1,
         "x_proj": torch.randn(rank + 2 * states, inner) * 0.4,
         "dt": torch.randn(inner, rank) * 0.5, "dt_bias": torch.randn(inner) * 0.1,
         "a": -torch.exp(torch.randn(inner, states) * 0.5), "d": torch.randn(inner),
         "out": torch.randn(dim, inner) * 0.05}
    x = torch.randn(1, length, dim)
    u, z = (x @ w["in"].T).chunk(2, -1)
    padded = F.pad(u.transpose(1, 2), (taps - 1, 0))
    u = F.silu(F.conv1d(padded, w["conv"], w["conv_bias"], groups=inner)).transpose(1, 2)
    dt, b, c = (u @ w["x_proj"].T).split([rank, states, states], -1)
    delta = F.softplus(dt @ w["dt"].T + w["dt_bias"])
    h, ys = torch.zeros(1, inner, states), []
    for t in range(length):
        h = torch.exp(delta[:, t, :, None] * w["a"]) * h
        h = h + delta[:, t, :, None] * u[:, t, :, None] * b[:, t, None, :]
        ys.append((h * c[:, t, None, :]).sum(-1) + w["d"] * u[:, t])
    y = (torch.stack(ys, 1) * F.silu(z)) @ w["out"].T
    return w | {"x": x, "y": y}


def equilibrium():
    """x = tanh(w x + u), by steps until no element changes by 1e-5."""
    torch.manual_seed(4)
    w, u, x, rounds = torch.randn(16, 16) * 0.15, torch.randn(16), torch.zeros(16), 0
    while True:
        new = torch.tanh(w @ x + u)
        rounds += 1
        change, x = (new - x).abs().max(), new
        if change < 1e-5:
            break
    assert not math.isclose(change.item(), 1e-5, rel_tol=0.05)
    return {"w": w, "u": u, "y": x, "rounds": torch.tensor(rounds, dtype=torch.int32)}


if __name__ == "__main__":
    OUT.mkdir(exist_ok=True)
    for make in (mlp, cnn, mamba, equilibrium):
        arrays = {name: x.contiguous() for name, x in make().items()}
        save_file(arrays, OUT / f"{make.__name__}.safetensors")
