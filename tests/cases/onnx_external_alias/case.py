"""Thousands of initialisers over one small external file cost no memory where nothing reads them,
and are refused where they are read: together they may not take much more than the file has."""
import onnx_file
from support import expect

NEEDS = ['onnx']
NAMES = ['k%d' % i for i in range(6000)]


def convert(t, node, program):
    network = t.write('x.onnx', onnx_file.model(
        [node], [onnx_file.external(name, [1 << 16], './' * (i % 4) + 'w')
                 for i, name in enumerate(NAMES)], inputs=[('x', [1 << 16])]))
    return t.bounded(20, 300, 'convert', network, t.path(program + '.mica'), '--quiet',
                     '--threads', 1)


def check(t):
    t.write('w', bytes(1 << 18))
    status, said = convert(t, onnx_file.node('Identity', ['x'], ['y']), 'a')
    expect(status == 0, said)
    status, said = convert(t, onnx_file.node('Sum', ['x'] + NAMES, ['y']), 'b')
    expect(status == 1 and 'too much memory' in said, said)
    status, said = convert(t, onnx_file.node('Sum', ['x'] + NAMES[:200], ['y']), 'c')
    expect(status == 0, said)
