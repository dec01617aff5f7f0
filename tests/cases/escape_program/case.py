"""Names in a program's file reach the terminal without their control characters: one that clears
the screen and sets the title does neither."""
import onnx_file
from support import expect

NEEDS = ['onnx']
NAME = 'x\033[2J\033]0;pwn\a\u009b\u202e'


def check(t):
    network = t.write('e.onnx', onnx_file.model(
        [onnx_file.node('Exp', [NAME], ['y'])], inputs=[(NAME, [2, 3])]))
    program = t.path('e.mica')
    for args in [('convert', network, program), ('program', 'show', program),
                 ('program', 'show', program, '--json'), ('program', 'run', program),
                 ('program', 'cost', program), ('program', 'run', program, '--input', NAME)]:
        done = t.mica(*args)
        for raw in ['\033', '\a', '\u009b', '\u202e']:
            expect(raw.encode() not in done.stdout + done.stderr, (args, done))
