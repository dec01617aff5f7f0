"""Thousands of initialisers over one small external file, which nothing reads, cost no memory."""
import onnx_file

NEEDS = ['onnx']


def check(t):
    t.write('w', bytes(1 << 18))
    network = t.write('x.onnx', onnx_file.model(
        [onnx_file.node('Identity', ['x'], ['y'])],
        [onnx_file.external('k%d' % i, [1 << 16], 'w') for i in range(6000)],
        inputs=[('x', [2])]))
    t.bounded(20, 300, 'convert', network, t.path('o.mica'), '-q', '--threads', 1)
