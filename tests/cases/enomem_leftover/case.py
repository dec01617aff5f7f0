"""What a command began to write is taken away when it fails, also when memory or descriptors are
out for good: removing needs none."""
import os
import resource
import shutil

import onnx_file
from support import Skip, expect


def commands(t):
    """Each: what makes OUT, and the largest number of an allocation that is tried."""
    gguf = os.path.join(t.fixtures, 'gguf', 'llama', 'model.gguf')
    model = os.path.join(t.fixtures, 'models', 'qwen3_untied_f16')
    adapter = os.path.join(t.fixtures, 'lora', 'mlx_qwen3')
    base = os.path.join(t.fixtures, 'models', 'qwen3_tied')
    text = t.write('text.jsonl', '{"text": "a b c d e f"}\n' * 4)
    lists = [['convert', gguf, 'OUT'], ['convert', model, 'OUT.gguf'], ['quantize', model, 'OUT'],
             ['fuse', base, 'OUT', '--adapter', adapter],
             ['tune', base, '--data', text, '--adapter-path', 'OUT', '--iters', 1]]
    if 'onnx' in t.have:
        network = t.write('i.onnx', onnx_file.model(
            [onnx_file.node('Identity', ['x'], ['y'])], inputs=[('x', [2, 3])]))
        lists.append(['convert', network, 'OUT.mica'])
    return lists


def attempt(t, args, what, **how):
    """Runs a command whose result is below a folder of its own; returns whether it succeeded."""
    folder = t.path('folder')
    os.mkdir(folder)
    args = [a.replace('OUT', os.path.join(folder, 'out')) if isinstance(a, str) else a
            for a in args]
    done = t.mica(*args, '--quiet', '--threads', 1, **how)
    hidden = [name for _, folders, files in os.walk(folder) for name in folders + files
              if name.startswith('.')]
    expect(not hidden, '%s: %s: left: %s' % (' '.join(map(str, args)), what, hidden))
    if done.returncode != 0 and args[0] != 'tune':  # whose folder is there before it is filled
        expect(not os.listdir(folder), '%s: %s: left: %s' % (args, what, os.listdir(folder)))
    shutil.rmtree(folder)
    return done.returncode == 0


def check(t):
    if not t.fail_malloc:
        raise Skip('malloc cannot be replaced here')
    for args in commands(t):
        expect(attempt(t, args, 'as it is'), 'fails as it is: %s' % args)
        n, done = 20, False
        while not done:
            done = attempt(t, args, 'allocation %d' % n, env={
                'LD_PRELOAD': t.fail_malloc, 'FAIL_MALLOC_AT': str(n), 'FAIL_MALLOC_REST': '1'})
            n += 20 + n // 20
        for few in range(3, 12):
            attempt(t, args, '%d descriptors' % few, prepare=lambda n=few: resource.setrlimit(
                resource.RLIMIT_NOFILE, (n, n)))
