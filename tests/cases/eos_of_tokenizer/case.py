"""Answers end at tokenizer_config's eos_token, alone or beside the ids of the configs.

The model says "Hi", then the tokenizer's own end token, then babbles for ever.
"""
import json

import script_model
from support import expect


def ends(t, name, config, generation):
    model = script_model.Model(['Hi', ' more', ' and'], end=False)
    model.forget()
    path = [model.special['<|go|>'], model.id('Hi'), model.special['<|end|>'], model.id(' more'),
            model.id(' and'), model.id(' more')]
    for last, following in zip(path, path[1:]):
        model.follow(last, following)
    del model.config['eos_token_id']
    if config:
        model.config['eos_token_id'] = model.special[config]
    if generation:
        model.generation_config = {'eos_token_id': model.special[generation]}
    model.tokenizer_config['eos_token'] = '<|end|>'
    done = t.succeed('run', model.save(t.path(name)), 'x', '--json', '--max-tokens', 8)
    answer = json.loads(done.stdout)
    expect(answer['finish'] == 'stop' and answer['text'] == 'Hi', (name, answer))


def check(t):
    ends(t, 'no_ids_anywhere', None, None)
    ends(t, 'another_id_in_configs', '<|eos|>', '<|eos|>')
