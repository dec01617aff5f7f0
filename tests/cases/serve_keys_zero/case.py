"""A file of keys has a limit, as every other file: /dev/zero is refused, not read until memory is
out."""
from support import expect

NEEDS = ['serve']


def check(t):
    status, said = t.bounded(5, 500, 'serve', t.model, '--host', '127.0.0.1', '--port', 0,
                             '--threads', 1, '--api-key-file', '/dev/zero')
    expect(status in (1, 2) and '/dev/zero' in said and 'holds no key' not in said, said)
