#!/usr/bin/env python3
"""Fourier transforms of complex numbers in f32 by mica and NumPy on one thread, in turns.

    fft_rates.py FFT [--turns 5]

FFT is build/bench/fft. A row of the table is rows times points: microseconds of both for all rows,
medians over turns, and mica's rate over NumPy's. Needs numpy.
"""
import argparse
import re
import statistics
import subprocess
import time

import numpy as np

POINTS = [64, 256, 1024, 4096, 16384, 65536, 96, 384, 1536, 12288, 49152, 127, 509, 1009, 4099,
          10007, 65537]
ELEMENTS = 1 << 16


def numpy_us(rows, points):
    x = (np.arange(2 * rows * points) * 7919 % 1000 / 1000).astype(np.float32)
    x = x.view(np.complex64).reshape(rows, points)
    assert np.fft.fft(x).dtype == np.complex64
    start, runs = time.perf_counter(), 0
    while time.perf_counter() - start < 0.01:
        np.fft.fft(x)
        runs += 1
    times = []
    for _ in range(9):
        start = time.perf_counter()
        for _ in range(2 * runs):
            np.fft.fft(x)
        times.append((time.perf_counter() - start) / (2 * runs))
    return statistics.median(times) * 1e6


def mica_us(program, rows, points):
    out = subprocess.run([program, str(rows), str(points)], capture_output=True, text=True,
                         check=True).stdout
    return float(re.search(r"points: ([\d.]+) us", out).group(1))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args()
    cases = [(1, n) for n in POINTS] + [(ELEMENTS // n, n) for n in POINTS if n < 10000]
    print(f"{'rows':>5} {'points':>6} {'mica us':>10} {'numpy us':>10} {'rate':>5}")
    for rows, points in cases:
        turns = [(mica_us(args.program, rows, points), numpy_us(rows, points))
                 for _ in range(args.turns)]
        mica, numpy = (statistics.median(t[i] for t in turns) for i in (0, 1))
        print(f"{rows:5} {points:6} {mica:10.2f} {numpy:10.2f} {numpy / mica:5.2f}", flush=True)


if __name__ == "__main__":
    main()
