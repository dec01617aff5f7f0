"""A chain of fifty constants of 16 MB keeps one or two of them in memory: each is read once."""
import onnx_file

NEEDS = ['onnx']


def check(t):
    nodes = [onnx_file.node('ConstantOfShape', ['s'], ['b0'])]
    nodes += [onnx_file.node('Exp', ['b%d' % i], ['b%d' % (i + 1)]) for i in range(50)]
    network = t.write('x.onnx', onnx_file.model(
        nodes, [onnx_file.int64s('s', [4000000])], outputs=['b50']))
    t.bounded(10, 150, 'convert', network, t.path('o.mica'), '--quiet', '--threads', 1)
