#!/usr/bin/env python3
"""Networks in ONNX's format: mica beside onnxruntime, in one run.

    python3 bench/peers/onnx_rates.py [--mica build/mica] [--threads 2] [--rounds 7] [--runs 3]
                                      [--only REGEX] [--form f32|dynamic|qdq|qoperator] [--cpu]
                                      [--folder FOLDER]

(needs the Python packages torch, torchvision, transformers, onnx and onnxruntime). Makes networks
with random weights (onnx_networks.py), in f32 or as onnxruntime.quantization writes them, converts
each, and checks that both programs compute the same. Then they take turns: in each round both run
--runs times, and the median counts; the table has the medians of the rounds and the median of their
ratios. --cpu: the processor's time instead, where other programs run beside; of one thread only,
since threads that wait take time, too. Memory is the most of a process that runs the network once,
beyond that of one that does nothing. FOLDER keeps what is made (build/peers/onnx).
"""
import argparse
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import time

import numpy as np
import onnxruntime
import torch
from onnxruntime import quantization
from torch import nn

from onnx_networks import NETWORKS

LIMITS = {"f32": 1e-3, "dynamic": 0.1, "qdq": 0.1, "qoperator": 0.1}  # of the largest value


class Once(quantization.CalibrationDataReader):
    def __init__(self, x):
        self.left = [{"x": x}]

    def get_next(self):
        return self.left.pop() if self.left else None


def quantise(plain, form, x, path):
    whole = path.with_suffix(".whole.onnx")
    quantization.quant_pre_process(plain, whole, skip_symbolic_shape=True)
    if form == "dynamic":
        quantization.quantize_dynamic(whole, path)
    else:
        format = {"qdq": quantization.QuantFormat.QDQ,
                  "qoperator": quantization.QuantFormat.QOperator}[form]
        quantization.quantize_static(whole, path, Once(x), quant_format=format,
                                     activation_type=quantization.QuantType.QUInt8)
    whole.unlink()


def export(name, folder):
    """The network in f32: its file and its input."""
    path, saved = folder / f"{name}.f32.onnx", folder / f"{name}.npy"
    if not path.exists():
        torch.manual_seed(0)
        net, x = NETWORKS[name]()
        for module in net.eval().modules():  # norms that do something
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_(0, 0.1)
                module.running_var.uniform_(0.5, 1.5)
        torch.onnx.export(net, (x,), path, input_names=["x"], output_names=["y"], opset_version=17,
                          dynamo=False, training=torch.onnx.TrainingMode.EVAL)
        np.save(saved, x.numpy())
    return path, np.load(saved)


def make(name, form, folder, mica):
    onnx, x = export(name, folder)
    if form != "f32":
        plain, onnx = onnx, folder / f"{name}.{form}.onnx"
        if not onnx.exists():
            quantise(plain, form, x, onnx)
    program = onnx.with_suffix(".mica")
    program.unlink(missing_ok=True)
    subprocess.run([mica, "convert", onnx, program], check=True, stdout=subprocess.DEVNULL)
    return onnx, program, x


def used():
    t = resource.getrusage(resource.RUSAGE_CHILDREN)
    return t.ru_utime + t.ru_stime


class Mica:
    def __init__(self, args, name, program):
        self.out, self.runs, self.cpu = program.with_suffix(".npy"), args.runs, args.cpu
        self.command = [args.mica, "program", "run", program, "--threads", str(args.threads),
                        "--input", f"x={args.folder / name}.npy", "-o", self.out, "--time"]

    def run(self, times):
        done = subprocess.run([*self.command, str(times)], check=True, capture_output=True,
                              text=True)
        return float(re.search(r"median ([0-9.e+-]+) ms", done.stderr).group(1))

    def once(self):
        """Milliseconds of a run."""
        if not self.cpu:
            return self.run(self.runs)
        seconds = []
        for times in (1, 1 + self.runs):  # what loading takes is in both
            begin = used()
            self.run(times)
            seconds.append(used() - begin)
        return 1e3 * (seconds[1] - seconds[0]) / self.runs


class Onnxruntime:
    def __init__(self, args, onnx, x):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = args.threads, 1
        self.session = onnxruntime.InferenceSession(onnx, options,
                                                    providers=["CPUExecutionProvider"])
        self.x, self.runs = {"x": x}, args.runs
        self.clock = time.process_time if args.cpu else time.perf_counter

    def once(self):
        self.session.run(None, self.x)
        seconds = []
        for _ in range(self.runs):
            begin = self.clock()
            self.session.run(None, self.x)
            seconds.append(self.clock() - begin)
        return 1e3 * statistics.median(seconds)


def peak(command):
    """The most memory of a process, MiB."""
    done = subprocess.run([sys.executable, "-c", "import resource, subprocess, sys\n"
                           "subprocess.run(sys.argv[1:], check=True, capture_output=True)\n"
                           "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)",
                           *map(str, command)], check=True, capture_output=True, text=True)
    return int(done.stdout) / 1024


def peaks(args, onnx, program, saved):
    """That of mica and of onnxruntime beyond a process of each that does nothing."""
    setup = ("import sys, numpy, onnxruntime\nx = numpy.load(sys.argv[2])\n"
             "o = onnxruntime.SessionOptions()\no.intra_op_num_threads = int(sys.argv[3])\n")
    work = ("s = onnxruntime.InferenceSession(sys.argv[1], o, providers=['CPUExecutionProvider'])\n"
            "s.run(None, {'x': x})\n")
    theirs = [peak([sys.executable, "-c", code, onnx, saved, args.threads])
              for code in (setup, setup + work)]
    ours = [peak([args.mica, "--version"]),
            peak([args.mica, "program", "run", program, "--threads", args.threads, "--input",
                  f"x={saved}", "-o", program.with_suffix(".npy")])]
    return ours[1] - ours[0], theirs[1] - theirs[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mica", default="build/mica")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--form", default="f32", choices=sorted(LIMITS))
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--folder", default="build/peers/onnx", type=pathlib.Path)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    print(f"{args.form}, threads: {args.threads}\n{'network':16} {'mica':>9} {'onnxruntime':>13} "
          f"ratio   memory of both     largest difference")
    for name in NETWORKS:
        if not re.search(args.only, name):
            continue
        onnx, program, x = make(name, args.form, args.folder, args.mica)
        ours, theirs = Mica(args, name, program), Onnxruntime(args, onnx, x)
        ours.run(1)
        want = theirs.session.run(None, theirs.x)[0]
        off = np.abs(np.load(ours.out) - want).max() / np.abs(want).max()
        times = [(ours.once(), theirs.once()) for _ in range(args.rounds)]
        a, b = (statistics.median(t) for t in zip(*times))
        ratio = statistics.median(b / a for a, b in times)
        memory = peaks(args, onnx, program, args.folder / f"{name}.npy")
        print(f"{name:16} {a:6.2f} ms {b:10.2f} ms {ratio:5.2f} {memory[0]:5.0f} and "
              f"{memory[1]:4.0f} MiB   {off:.1e} of the largest", flush=True)
        assert off < LIMITS[args.form]


if __name__ == "__main__":
    main()
