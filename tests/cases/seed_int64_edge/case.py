"""A seed is any int64, as in OpenAI's schema."""
import script_model
from support import expect

NEEDS = ['serve']


def check(t):
    folder = script_model.Model(['yes']).save(t.path('model'))
    with t.serve(folder) as server:
        for seed in [2**63 - 513, 2**63 - 512, 2**63 - 1, -2**63, -1]:
            status, answer = server.ask('/v1/completions', {
                'prompt': 'x', 'max_tokens': 1, 'seed': seed})
            expect(status == 200, (seed, answer))
        for seed in [2**64]:
            status, answer = server.ask('/v1/completions', {
                'prompt': 'x', 'max_tokens': 1, 'seed': seed})
            expect(status == 400 and 'seed' in str(answer), (seed, answer))
