#!/usr/bin/env python3
"""What Python costs a token, and what is left of C's rate.

    MICA_LIBRARY=build/libmica.so.0 bench/python.py [MODEL [COMMAND]]
    MODEL   models/default      COMMAND  build/mica

Python's part of a token is the processor's time with a call of C's in its place that does nothing:
the token is there already; of what a token takes on processors, by one thread, it leaves the rest
to C. Others on the machine hardly change these. The rates are of decode steps by the wall, of the
command and of Python in turn, each in a process of its own. Prints the rates of each, and the
median of the ratios of neighbours.
"""
import json
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / 'bindings/python'))
import mica  # pylint: disable=wrong-import-position
from mica import _library  # pylint: disable=wrong-import-position

PROMPT, TOKENS, ROUNDS = 'The sea is', 256, 9
MODEL = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / 'models/default')
COMMAND = sys.argv[2] if len(sys.argv) > 2 else str(ROOT / 'build/mica')


def seconds_of(work, count):
    begin = time.process_time()
    for _ in range(count):
        work()
    return (time.process_time() - begin) / count


def python_part(model):
    """Seconds of Python a token: a step whose call gives a token at once, and a call of ctypes."""
    with model.generate(PROMPT, max_tokens=3) as stream:
        next(stream)
        stream._next = lambda pointer, at: True
        step = min(seconds_of(stream.__next__, 20000) for _ in range(5))
        stream._tokens.clear()
    none = mica._c.mica_array(None, 0)
    call = min(seconds_of(lambda: _library.lib.mica_valid(none), 20000) for _ in range(5))
    return step + call


def whole_token(model):
    """Seconds of a token on processors, the least of some answers."""
    def answer():
        with model.generate(PROMPT, max_tokens=TOKENS, ignore_eos=True) as stream:
            return sum(token.id >= 0 for token in stream)
    return min(seconds_of(answer, 1) for _ in range(ROUNDS)) / TOKENS


def by_command():
    done = subprocess.run([COMMAND, 'generate', MODEL, PROMPT, '--max-tokens', str(TOKENS),
                           '--ignore-eos', '--json'], capture_output=True, check=True)
    return json.loads(done.stdout)['decode_rate']


def rate_here():
    with mica.Model(MODEL) as model, \
            model.generate(PROMPT, max_tokens=TOKENS, ignore_eos=True) as stream:
        next(stream)
        begin = time.perf_counter()
        count = sum(token.id >= 0 for token in stream)
        return count / (time.perf_counter() - begin)


def by_python():
    done = subprocess.run([sys.executable, __file__, MODEL, COMMAND, '--rate'],
                          capture_output=True, check=True)
    return float(done.stdout)


def main():
    if sys.argv[3:] == ['--rate']:
        print(rate_here())
        return
    with mica.Model(MODEL, threads=1) as model:
        part, whole = python_part(model), whole_token(model)
        print('Python a token: %.2f us of %.0f us on processors, so Python / C is %.4f' % (
            1e6 * part, 1e6 * whole, (whole - part) / whole))
    pairs = [(by_command(), by_python()) for _ in range(ROUNDS)]
    for name, rates in zip(('command', 'Python'), zip(*pairs)):
        print('%-8s %s tok/s' % (name, ' '.join('%.0f' % rate for rate in rates)))
    print('Python / command, median: %.3f' % statistics.median(p / c for c, p in pairs))


if __name__ == '__main__':
    main()
