"""A training that tests for Windows start by Wine."""
import json
import os
import subprocess


def write_data(folder):
    path = os.path.join(folder, 'data.jsonl')
    with open(path, 'w', encoding='utf-8') as file:
        for i, what in enumerate(('curl', 'disk', 'kernel', 'model', 'token', 'file')):
            file.write(json.dumps({'prompt': 'What is a %s?' % what,
                                   'completion': 'Number %d, captain.' % i}) + '\n')
    return path


def command(mica, data, adapter, *options):
    return [mica, 'tune', '--data', data, '--batch-size', '2', '--save-every', '1',
            '--learning-rate', '1e-3', '--modules', 'q_proj', '--modules', 'down_proj',
            '--num-layers', '2', '--rank', '2', '--dropout', '0.1', '--threads', '1',
            '--optimizer', 'adamw', '--adapter-path', adapter, '--resume'] + list(options)


def run(words):
    """The status and what the command says."""
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    return done.returncode, done.stdout.decode('utf-8', 'replace')


def read(folder, name='adapters.safetensors'):
    with open(os.path.join(folder, name), 'rb') as file:
        return file.read()
