"""Thirty matmuls of constants are no work for a conversion: neither their time nor their memory."""
import struct

import onnx_file

NEEDS = ['onnx']


def check(t):
    nodes = [onnx_file.node('Expand', ['k', 's'], ['e0'])]
    nodes += [onnx_file.node('MatMul', ['e%d' % i] * 2, ['e%d' % (i + 1)]) for i in range(30)]
    network = t.write('m.onnx', onnx_file.model(
        nodes, [onnx_file.initializer('k', onnx_file.FLOAT, [1, 1], struct.pack('<f', 0)),
                onnx_file.int64s('s', [2000, 2000])], outputs=['e30']))
    t.bounded(5, 256, 'convert', network, t.path('o.mica'), '--quiet', '--threads', 1)
