"""The config says that the head is the embedding, but the file has a head with other values, as
PEFT's merge leaves behind: the head of the file is used."""
import script_model
from support import expect


def check(t):
    model = script_model.Model(['yes', ' sir'])
    model.config['tie_word_embeddings'] = True
    done = t.succeed('run', model.save(t.path('model')), 'x', '--max-tokens', 4)
    expect(done.stdout.strip() == b'yes sir', done)
