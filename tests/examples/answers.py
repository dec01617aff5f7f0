#!/usr/bin/env python3
"""Asks a model by a program that embeds mica, and compares it with the command.

  answers.py MICA MODEL PROGRAM...    PROGRAM... FOLDER QUESTION prints the answer

The answer is the command's, and nothing else is printed. A folder that is none is told on standard
error, with exit status 1. An interrupt ends an answer that would go on, with exit status 130.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

QUESTION = 'What is curl?'
mica, model, program = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), sys.argv[3:]


def run(command):
    done = subprocess.run(command, capture_output=True, timeout=1000, check=False)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def expect(what, got, wanted):
    if got != wanted:
        sys.exit('%s:\n  wanted %r\n  got    %r' % (what, wanted, got))


def interrupted(folder):
    """How the program ends that is interrupted within an answer of some 5,000 bytes."""
    # What runs in the background inherits that interrupts are ignored.
    with subprocess.Popen(program + [folder, QUESTION], bufsize=0, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, preexec_fn=lambda: signal.signal(
                              signal.SIGINT, signal.SIG_DFL)) as process:
        process.stdout.read(1)
        process.send_signal(signal.SIGINT)
        rest, said = process.communicate(timeout=1000)
    return process.returncode, said.decode(), len(rest) < 2500


def write_endless(folder):
    """The model without what ends an answer."""
    for name in ('model.safetensors', 'tokenizer.json', 'tokenizer_config.json',
                 'chat_template.jinja'):
        os.symlink(model / name, os.path.join(folder, name))
    config = json.loads((model / 'config.json').read_text(encoding='utf-8'))
    config['eos_token_id'] = 0
    pathlib.Path(folder, 'config.json').write_text(json.dumps(config), encoding='utf-8')


answer = run([mica, 'run', '--quiet', '--model', str(model), QUESTION])
expect('the command', (answer[0], len(answer[1]) > 40), (0, True))
expect('the answer', run(program + [str(model), QUESTION]), (0, answer[1], ''))

code, out, err = run(program + ['/nowhere', QUESTION])
expect('no such folder', (code, out), (1, ''))
expect('its error', (err.startswith('MICA_ENOENT: '), '/nowhere' in err, err.count('\n')),
       (True, True, 1))

with tempfile.TemporaryDirectory() as endless:
    write_endless(endless)
    expect('an interrupt', interrupted(endless), (130, '', True))
