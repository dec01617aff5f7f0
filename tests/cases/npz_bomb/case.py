"""A member of an npz says its shape in its first bytes: one that does not fit is refused before it
is unpacked."""
import zipfile

import onnx_file
from support import expect

NEEDS = ['onnx']
GIANT = 1 << 30


def pack(path):
    """A gigabyte of zeros, in a megabyte."""
    about = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1024, 1024, 256), }"
    about += b' ' * (117 - len(about)) + b'\n'
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED) as archive:
        with archive.open('x.npy', 'w', force_zip64=True) as member:
            member.write(b'\x93NUMPY\x01\x00' + len(about).to_bytes(2, 'little') + about)
            for _ in range(GIANT >> 20):
                member.write(bytes(1 << 20))


def check(t):
    network = t.write('i.onnx', onnx_file.model(
        [onnx_file.node('Identity', ['x'], ['y'])], inputs=[('x', [2, 3])]))
    t.succeed('convert', network, t.path('i.mica'), '--quiet')
    pack(t.path('in.npz'))
    status, said = t.bounded(5, 200, 'program', 'run', t.path('i.mica'), '--input',
                             t.path('in.npz'), '--threads', 1)
    expect(status == 1 and '1024' in said, said)
