"""Reads and writes safetensors of float32, with nothing but Python."""
import array
import json
import struct


def write(path, tensors):
    """tensors: {name: (shape, array of floats)}"""
    header, at = {'__metadata__': {'format': 'pt'}}, 0
    for name, (shape, values) in tensors.items():
        header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [at, at + 4 * len(values)]}
        at += 4 * len(values)
    text = json.dumps(header).encode()
    with open(path, 'wb') as file:
        file.write(struct.pack('<Q', len(text)) + text)
        for _, values in tensors.values():
            file.write(values.tobytes())


def read(path):
    with open(path, 'rb') as file:
        data = file.read()
    end = 8 + struct.unpack('<Q', data[:8])[0]
    tensors = {}
    for name, about in json.loads(data[8:end]).items():
        if name != '__metadata__':
            begin, stop = about['data_offsets']
            tensors[name] = about['shape'], array.array('f', data[end + begin:end + stop])
    return tensors


def zeros(*shape):
    n = 1
    for length in shape:
        n *= length
    return list(shape), array.array('f', bytes(4 * n))
