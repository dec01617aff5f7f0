"""One shard of 10,000 is missing: told at once, by its number."""
import os
import shutil

from support import expect

MANY = 10000


def check(t):
    folder = t.path('model')
    os.mkdir(folder)
    for name in 'config.json', 'tokenizer.json':
        shutil.copy(os.path.join(t.model, name), folder)
    for i in range(1, MANY):
        t.write('model/model-%05d-of-%05d.safetensors' % (i, MANY), '')
    status, said = t.bounded(5, 200, 'run', folder, 'hi', '-n', 1, '--quiet', '--threads', 1)
    expect(status == 1 and 'number %d is missing' % MANY in said, said)
