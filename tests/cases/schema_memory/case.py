"""A schema of 5,000 alternatives is refused, or taken, in little memory and time."""
import json

KIND = {'type': 'object', 'required': ['k']}


def check(t):
    schema = {'oneOf': [dict(KIND, properties={'k': {'const': i}}) for i in range(5000)]}
    t.bounded(5, 110, 'run', t.model, 'hi', '-n', 1, '--quiet', '--threads', 1,
              '--json-schema-file', t.write('s.json', json.dumps(schema)))
