"""Keys of a config reach the terminal without their control characters."""
from support import expect


def check(t):
    config = t.write('config.json', '{"\\u001b[2J\\u001b[31m\\u009bk\\u202e": 1}')
    done = t.mica('tune', t.model, '--config', config, '--data', config, '--adapter-path',
                  t.path('adapter'))
    said = done.stdout + done.stderr
    expect(done.returncode != 0, said)
    for raw in ['\033', '\u009b', '\u202e']:
        expect(raw.encode() not in said, said)
