"""Two batches of one example, accumulated, make the update of one batch of two: the gradient is
that of the mean over all tokens, however long each example is."""
import json
import os
import random

import safetensors_file
import script_model
from support import expect


def update(t, folder, name, *options):
    out = t.path(name)
    t.succeed('tune', folder, '--data', t.path('train.jsonl'), '--adapter-path', out,
              '--arithmetic', 'exact', '--optimizer', 'sgd', '--learning-rate', '0.01',
              '--seed', 1, *options)
    tensors = safetensors_file.read(os.path.join(out, 'adapters.safetensors'))
    return [v for key in sorted(tensors) if key.endswith('lora_b') for v in tensors[key][1]]


def check(t):
    model = script_model.Model(['a'])
    draw = random.Random(0)
    for name, (_, values) in model.tensors.items():
        for i in range(len(values) if 'norm' not in name else 0):
            values[i] = draw.gauss(0, 0.2)
    folder = model.save(t.path('model'))
    t.write('train.jsonl', ''.join(json.dumps({'text': text}) + '\n' for text in [
        'abc', 'the quick brown fox jumps ' * 4]))
    whole = update(t, folder, 'whole', '--batch-size', 2, '--iters', 1)
    parts = update(t, folder, 'parts', '--batch-size', 1, '--iters', 2,
                   '--grad-accumulation-steps', 2)
    norm = sum(x * x for x in whole)
    far = (sum((x - y)**2 for x, y in zip(whole, parts)) / norm)**0.5
    expect(norm > 0 and far < 1e-2, 'the updates differ by %g' % far)
