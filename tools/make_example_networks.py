#!/usr/bin/env python3
"""Makes examples/data/*.onnx: the small networks of examples/detect.c, voice.c and encode.c.

    python3 tools/make_example_networks.py     (needs the Python packages torch, torchvision and
                                                onnx; made with torch 2.15)
"""
import math
import pathlib

import torch
import torchvision
from torch.nn import functional as F

OUT = pathlib.Path(__file__).resolve().parent.parent / "examples/data"
RATE, FRAME = 16000, 160  # samples a second, and a frame


class Detector(torch.nn.Module):
    """Squares of 8 pixels that are lighter than what is around them: a score for each place of a
    grid, and of the boxes there those that do not overlap a better one."""

    def __init__(self):
        super().__init__()
        light = torch.full((1, 1, 12, 12), -1 / 80)
        light[:, :, 2:10, 2:10] = 1 / 64
        self.score = torch.nn.Conv2d(1, 1, 12, padding=2, stride=2)
        self.score.weight.data, self.score.bias.data = light, torch.tensor([-0.5])

    def forward(self, image):
        score = torch.sigmoid(20 * self.score(image)[0, 0])
        y, x = torch.meshgrid(torch.arange(score.shape[0]), torch.arange(score.shape[1]),
                              indexing="ij")
        corner = 2 * torch.stack([x, y], -1).reshape(-1, 2).float()
        boxes, scores = torch.cat([corner, corner + 8], 1), score.reshape(-1)
        light = scores > 0.5
        boxes, scores = boxes[light], scores[light]
        keep = torchvision.ops.nms(boxes, scores, 0.1)
        return boxes[keep], scores[keep]


class Voice(torch.nn.Module):
    """How probable a voice is in a frame, after those before it: [1, 160], [1, 1, 8]."""

    def __init__(self):
        super().__init__()
        self.filters = torch.nn.Conv1d(1, 8, 80, stride=40)
        self.memory = torch.nn.GRU(8, 8)
        self.head = torch.nn.Linear(8, 1)

    def forward(self, frame, state):
        x = self.filters(frame.unsqueeze(1)).abs().mean(-1)
        y, state = self.memory(torch.log(x + 1e-3).unsqueeze(1), state)
        return torch.sigmoid(self.head(y[:, 0])), state


def sound(seconds, generator):
    """Noise, with a voice (harmonics of a tone) in its middle third; and where the voice is."""
    n = int(seconds * RATE)
    t = torch.arange(n) / RATE
    pitch = 100 + 120 * torch.rand(1, generator=generator)
    voice = sum(torch.sin(2 * math.pi * pitch * k * t) / k for k in range(1, 12))
    there = ((t >= seconds / 3) & (t < 2 * seconds / 3)).float()
    x = 0.05 * torch.randn(n, generator=generator) + 0.2 * voice * there
    return x.reshape(-1, FRAME), there.reshape(-1, FRAME)[:, 0]


def voice():
    generator = torch.Generator().manual_seed(3)
    torch.manual_seed(3)
    net = Voice()
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(60):
        x, there = sound(0.9, generator)
        p, _ = net(x, torch.zeros(1, 1, 8))
        optimizer.zero_grad()
        F.binary_cross_entropy(p[:, 0], there).backward()
        optimizer.step()
    return net


class Encoder(torch.nn.Module):
    """A vector of length 1 for each row of bytes, [batch, length], of which a mask says which are
    there."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.table = torch.nn.Embedding(128, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.qkv, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)

    def forward(self, ids, mask):
        x = self.norm(self.table(ids))
        q, k, v = self.qkv(x).chunk(3, -1)
        scores = q @ k.transpose(1, 2) / 4
        scores = scores.masked_fill(mask[:, None] == 0, -1e9)
        x = x + self.out(scores.softmax(-1) @ v)
        return F.normalize((x * mask[..., None]).sum(1), dim=-1)


def export(name, net, inputs, names, results, axes):
    torch.onnx.export(net.eval(), inputs, str(OUT / f"{name}.onnx"), input_names=names,
                      output_names=results, dynamic_axes=axes, dynamo=False, opset_version=17)


if __name__ == "__main__":
    export("detect", Detector(), (torch.rand(1, 1, 40, 60),), ["image"], ["boxes", "scores"],
           {"image": {2: "height", 3: "width"}, "boxes": {0: "found"}, "scores": {0: "found"}})
    export("voice", voice(), (torch.zeros(1, FRAME), torch.zeros(1, 1, 8)), ["frame", "state"],
           ["probability", "next"], {})
    ids = torch.randint(1, 127, (2, 7))
    export("encode", Encoder(), (ids, torch.ones_like(ids)), ["ids", "mask"], ["vector"],
           {"ids": {0: "batch", 1: "length"}, "mask": {0: "batch", 1: "length"}})
