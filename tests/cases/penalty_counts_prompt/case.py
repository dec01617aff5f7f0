"""Presence and frequency penalties leave tokens of the prompt alone: OpenAI counts those made."""
import script_model
from support import expect

NEEDS = ['serve']


def check(t):
    model = script_model.Model([' Alpha', ' Beta'])
    model.forget()
    go, alpha, beta = model.special['<|go|>'], model.id(' Alpha'), model.id(' Beta')
    model.follow(go, alpha)
    model.follow(go, beta, 0.95)
    with t.serve(model.save(t.path('model'))) as server:
        for field, strength in [('presence_penalty', 0), ('presence_penalty', 1.5),
                                ('frequency_penalty', 1.5)]:
            status, answer = server.ask('/v1/completions', {
                'prompt': [120, alpha, go], 'max_tokens': 1, 'temperature': 0, field: strength})
            expect(status == 200 and answer['choices'][0]['text'] == ' Alpha', (field, answer))
