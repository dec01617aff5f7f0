"""Compressed training data that unpacks to thousands of times its size is refused before it is
unpacked; data that compresses well is not."""
import gzip

from support import expect


def zstd(text, blocks):
    """A zstd frame in which a byte is repeated: 128 KiB for each 4 bytes."""
    frame = b'\x28\xb5\x2f\xfd' + bytes([0x00, 0x58])  # magic, no checksum, a window of 2 MiB
    frame += (len(text) << 3).to_bytes(3, 'little') + text
    for i in range(blocks):
        last = i + 1 == blocks
        frame += (last | 1 << 1 | (1 << 17) << 3).to_bytes(3, 'little') + b'\n'
    return frame


def tune(t, name, data):
    return t.bounded(10, 400, 'tune', t.model, '--data', t.write(name, data), '--adapter-path',
                     t.path('adapter'), '--iters', 1, '--batch-size', 1, '--max-seq-length', 8,
                     '--threads', 1, '--quiet')


def check(t):
    line = b'{"text": "one two three"}\n'
    for name, data in [('a.jsonl.gz', gzip.compress(line + b'\n' * (1 << 27), 9)),
                       ('b.jsonl.gz', gzip.compress(line + b' ' * (1 << 27), 9)),
                       ('c.jsonl.zst', zstd(line, 1 << 14)), ]:
        status, said = tune(t, name, data)
        if 'this build of mica cannot read' not in said:
            expect(status == 1 and ('times as long' in said or 'bytes' in said), (name, said))
    status, said = tune(t, 'd.jsonl.gz', gzip.compress(line * 10000))
    expect(status == 0 or 'this build of mica cannot read' in said, said)
