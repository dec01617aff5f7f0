#!/usr/bin/env python3
"""Trains 30 steps by Wine, ends training at three moments, and lets it go on.

  tune.py MICA

What comes out is what a training gives that nobody ended, byte for byte.
"""
import os
import random
import subprocess
import sys
import tempfile
import time

import tuning

mica, = sys.argv[1:]
STEPS, KILLS = 30, 3


def steps_of(log):
    """How many checkpoints a training has noted."""
    try:
        with open(log, encoding='utf-8') as file:
            return file.read().count('saved')
    except FileNotFoundError:
        return 0


with tempfile.TemporaryDirectory() as work:
    data = tuning.write_data(work)
    whole, part, log = (os.path.join(work, name) for name in ('whole', 'part', 'log.jsonl'))
    status, text = tuning.run(tuning.command(mica, data, whole, '--iters', str(STEPS)))
    if status:
        sys.exit('tune.py: training failed: ' + text)
    draw = random.Random(7)
    for i in range(KILLS):
        after = steps_of(log) + draw.randint(1, STEPS // KILLS - 2)
        training = subprocess.Popen(
            tuning.command(mica, data, part, '--iters', str(STEPS), '--log', log),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while steps_of(log) < after and training.poll() is None:
            time.sleep(0.01)
        if training.poll() is not None:
            sys.exit('tune.py: training ended by itself, with status %d' % training.returncode)
        training.kill()
        training.wait()
    status, text = tuning.run(tuning.command(mica, data, part, '--iters', str(STEPS)))
    if status:
        sys.exit('tune.py: training does not go on: ' + text)
    if tuning.read(whole) != tuning.read(part):
        sys.exit('tune.py: other parameters after %d kills' % KILLS)
print('%d steps, %d kills: the same parameters' % (STEPS, KILLS))
