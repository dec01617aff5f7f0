"""Writes ONNX files: the few fields of the format that the cases use."""
import struct

FLOAT, INT64 = 1, 7


def number(value):
    out = b''
    value &= (1 << 64) - 1
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def field(at, value):
    """Field `at` of a message: an integer, or a string, or a message."""
    if isinstance(value, int):
        return number(at << 3) + number(value)
    if isinstance(value, str):
        value = value.encode()
    return number(at << 3 | 2) + number(len(value)) + value


def node(op, inputs, outputs, attributes=b''):
    return field(1, b''.join(field(1, name) for name in inputs) +
                 b''.join(field(2, name) for name in outputs) + field(4, op) + attributes)


def ints(name, values):
    """An attribute that is a list of integers."""
    return field(5, field(1, name) + b''.join(field(8, v) for v in values) + field(20, 7))


def initializer(name, kind, dims, data):
    return field(5, b''.join(field(1, d) for d in dims) + field(2, kind) + field(8, name) +
                 field(9, data))


def external(name, dims, location):
    """Floats that lie in another file."""
    return field(5, b''.join(field(1, d) for d in dims) + field(2, FLOAT) + field(8, name) +
                 field(13, field(1, 'location') + field(2, location)) + field(14, 1))


def int64s(name, values):
    return initializer(name, INT64, [len(values)], struct.pack('<%dq' % len(values), *values))


def value(at, name, dims=None):
    """An input (field 11 of a graph) or a result (12) of floats."""
    shape = b'' if dims is None else field(2, b''.join(field(1, field(1, d)) for d in dims))
    return field(at, field(1, name) + field(2, field(1, field(1, FLOAT) + shape)))


def model(nodes, initializers=(), inputs=(), outputs=('y',)):
    """inputs: (name, dims) each"""
    graph = b''.join(nodes) + field(2, 'g') + b''.join(initializers)
    graph += b''.join(value(11, name, dims) for name, dims in inputs)
    graph += b''.join(value(12, name) for name in outputs)
    return field(1, 8) + field(7, graph) + field(8, field(1, b'') + field(2, 17))
