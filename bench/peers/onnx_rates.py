#!/usr/bin/env python3
"""Networks in ONNX's format: mica beside onnxruntime, in one run.

    python3 bench/peers/onnx_rates.py [--mica build/mica] [--threads 2] [--rounds 5] [--only NAME]
                                      [--folder FOLDER]

(needs the Python packages torch, onnx and onnxruntime). Makes a ResNet-18, a MobileNetV2 and a
BERT-base encoder with random weights, converts each, and checks that both programs compute the
same. Then they take turns: in each round both run --runs times, and the median counts; the table
has the medians of the rounds. All is f32. FOLDER keeps what is made (build/peers/onnx).
"""
import argparse
import pathlib
import re
import statistics
import subprocess
import time

import numpy as np
import onnxruntime
import torch
from torch import nn


def conv(c_in, c_out, k, stride=1, groups=1, act=nn.ReLU):
    layers = [nn.Conv2d(c_in, c_out, k, stride, k // 2, groups=groups, bias=False),
              nn.BatchNorm2d(c_out)]
    return nn.Sequential(*layers, *([act()] if act else []))


class Residual(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.body = nn.Sequential(conv(c_in, c_out, 3, stride), conv(c_out, c_out, 3, act=None))
        same = stride == 1 and c_in == c_out
        self.skip = nn.Identity() if same else conv(c_in, c_out, 1, stride, act=None)

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


def resnet18():
    widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1),
              (256, 512, 2), (512, 512, 1)]
    return nn.Sequential(conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1), *[Residual(*w) for w in widths],
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class Inverted(nn.Module):
    def __init__(self, c_in, c_out, stride, expand):
        super().__init__()
        wide = c_in * expand
        self.add = stride == 1 and c_in == c_out
        first = [conv(c_in, wide, 1, act=nn.ReLU6)] if expand > 1 else []
        self.body = nn.Sequential(*first, conv(wide, wide, 3, stride, wide, nn.ReLU6),
                                  conv(wide, c_out, 1, act=None))

    def forward(self, x):
        return x + self.body(x) if self.add else self.body(x)


def mobilenet():
    rows = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
            (6, 160, 3, 2), (6, 320, 1, 1)]
    layers, c = [conv(3, 32, 3, 2, act=nn.ReLU6)], 32
    for expand, width, count, stride in rows:
        for i in range(count):
            layers.append(Inverted(c, width, stride if i == 0 else 1, expand))
            c = width
    return nn.Sequential(*layers, conv(c, 1280, 1, act=nn.ReLU6), nn.AdaptiveAvgPool2d(1),
                         nn.Flatten(), nn.Linear(1280, 1000))


class Layer(nn.Module):
    def __init__(self, width=768, heads=12):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        b, l, d = x.shape
        q, k, v = (f(x).view(b, l, self.heads, -1).transpose(1, 2)
                   for f in (self.q, self.k, self.v))
        p = torch.softmax(q @ k.transpose(-1, -2) / (d // self.heads) ** 0.5, -1)
        x = self.n1(x + self.o((p @ v).transpose(1, 2).reshape(b, l, d)))
        return self.n2(x + self.down(nn.functional.gelu(self.up(x))))


def bert():
    return nn.Sequential(*[Layer() for _ in range(12)])


NETWORKS = {"resnet18": (resnet18, (1, 3, 224, 224)), "mobilenetv2": (mobilenet, (1, 3, 224, 224)),
            "bert-base": (bert, (1, 128, 768))}


def make(name, folder, mica):
    build, shape = NETWORKS[name]
    torch.manual_seed(0)
    net, x = build().eval(), torch.randn(*shape)
    for module in net.modules():  # norms that do something
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    onnx, program = folder / f"{name}.onnx", folder / f"{name}.mica"
    if not onnx.exists():
        torch.onnx.export(net, (x,), onnx, input_names=["x"], output_names=["y"], opset_version=17,
                          dynamo=False, training=torch.onnx.TrainingMode.EVAL)
    program.unlink(missing_ok=True)
    subprocess.run([mica, "convert", onnx, program], check=True, stdout=subprocess.DEVNULL)
    np.save(folder / f"{name}.npy", x.numpy())
    return onnx, program, x.numpy()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mica", default="build/mica")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--folder", default="build/peers/onnx", type=pathlib.Path)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    print(f"{'network':12} {'mica':>10} {'onnxruntime':>12} {'ratio':>6}   largest difference")
    for name in NETWORKS:
        if args.only not in name:
            continue
        onnx, program, x = make(name, args.folder, args.mica)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = args.threads
        options.inter_op_num_threads = 1
        session = onnxruntime.InferenceSession(onnx, options, providers=["CPUExecutionProvider"])
        want = session.run(None, {"x": x})[0]
        out = args.folder / f"{name}.out.npy"
        command = [args.mica, "program", "run", program, "--threads", str(args.threads), "--input",
                   f"x={args.folder / name}.npy", "-o", out, "--time", str(args.runs)]
        ours, theirs = [], []
        for _ in range(args.rounds):
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            ours.append(float(re.search(r"median ([0-9.e+-]+) ms", done.stderr).group(1)))
            session.run(None, {"x": x})
            seconds = []
            for _ in range(args.runs):
                begin = time.perf_counter()
                session.run(None, {"x": x})
                seconds.append(time.perf_counter() - begin)
            theirs.append(1e3 * statistics.median(seconds))
        a, b = statistics.median(ours), statistics.median(theirs)
        off = np.abs(np.load(out) - want).max() / np.abs(want).max()
        print(f"{name:12} {a:7.2f} ms {b:9.2f} ms {b / a:6.2f}   {off:.1e} of the largest",
              flush=True)
        assert off < 1e-4


if __name__ == "__main__":
    main()
