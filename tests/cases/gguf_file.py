"""Changes keys of GGUF files. Their length stays a multiple of the alignment."""
import struct


def rename(data, key, new):
    """Takes a key away by giving it another name of the same length."""
    assert len(key) == len(new) and data.count(key.encode()) == 1
    return data.replace(key.encode(), new.encode())


def add_number(data, key, value):
    """Adds a key whose value is an unsigned 32-bit integer."""
    added = struct.pack('<Q', len(key)) + key.encode() + struct.pack('<II', 4, value)
    filler = -(len(added) + 13) % 32 + 32
    added += struct.pack('<Q', filler) + b'x' * filler + struct.pack('<IB', 0, 0)
    assert len(added) % 32 == 0
    keys = struct.unpack('<Q', data[16:24])[0]
    return data[:16] + struct.pack('<Q', keys + 2) + added + data[24:]
