"""Two hundred bytes may not ask for 3e11 multiplications: computing constants has a budget of
work."""
import struct

import onnx_file

NEEDS = ['onnx']


def check(t):
    network = t.write('conv.onnx', onnx_file.model(
        [onnx_file.node('Expand', ['k', 's'], ['image']),
         onnx_file.node('Expand', ['k', 't'], ['filter']),
         onnx_file.node('Conv', ['image', 'filter'], ['y'], onnx_file.ints('pads', [64] * 4))],
        [onnx_file.initializer('k', onnx_file.FLOAT, [1, 1, 1, 1], struct.pack('<f', 0)),
         onnx_file.int64s('s', [1, 16, 256, 256]), onnx_file.int64s('t', [16, 16, 127, 127])]))
    t.bounded(5, 256, 'convert', network, t.path('o.mica'), '--quiet', '--threads', 1)
