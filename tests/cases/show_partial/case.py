"""What -o names holds the whole, or what was there before: a write that fails changes nothing."""
import os
import resource
import signal

import onnx_file
from support import expect

NEEDS = ['onnx']


def no_space():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def check(t):
    network = t.write('i.onnx', onnx_file.model(
        [onnx_file.node('Identity', ['x'], ['y'])], inputs=[('x', [2, 3])]))
    program = t.path('i.mica')
    t.succeed('convert', network, program, '--quiet')
    for before in [None, b'what was there']:
        drawn = t.path('x.dot')
        if before is not None:
            t.write('x.dot', before)
        done = t.mica('program', 'show', program, '-o', drawn, prepare=no_space)
        expect(done.returncode == 1, done)
        now = None
        if os.path.exists(drawn):
            with open(drawn, 'rb') as file:
                now = file.read()
        expect(now == before, now)
