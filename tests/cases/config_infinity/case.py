"""Python writes Infinity and NaN in JSON: a config whose unread fields have them loads."""
import json
import os

import script_model
from support import expect


def check(t):
    model = script_model.Model(['yes'])
    model.config['time_step_limit'] = [0.0, float('inf')]
    model.config['unread'] = float('nan')
    folder = model.save(t.path('model'))
    with open(os.path.join(folder, 'config.json'), encoding='utf-8') as file:
        expect('Infinity' in file.read(), json.dumps(float('inf')))
    done = t.mica('run', folder, 'x')
    expect(done.stdout.strip() == b'yes', done)
