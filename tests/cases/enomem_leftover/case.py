"""What a conversion began is taken away, also when memory is out for good: removing needs none."""
import os

from support import Skip, expect


def check(t):
    if not t.fail_malloc:
        raise Skip('malloc cannot be replaced here')
    source = os.path.join(t.fixtures, 'gguf', 'llama', 'model.gguf')
    for n in range(60, 600, 20):
        folder = t.path(str(n))
        os.mkdir(folder)
        t.mica('convert', source, os.path.join(folder, 'out'), '-q', '--threads', 1, env={
            'LD_PRELOAD': t.fail_malloc, 'FAIL_MALLOC_AT': str(n), 'FAIL_MALLOC_REST': '1'})
        left = os.listdir(folder)
        expect(not left, 'allocation %d: left: %s' % (n, left))
