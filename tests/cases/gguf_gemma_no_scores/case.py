"""A vocabulary of the kind llama has its merges from the scores: without these it is refused."""
import gguf_file
from support import expect


def check(t):
    source = t.write('x.gguf', gguf_file.rename(t.fixture('gguf', 'gemma2', 'model.gguf'),
                                                'tokenizer.ggml.scores', 'tokenizer.ggml.absent'))
    done = t.mica('convert', source, t.path('out'), '--quiet', '--threads', 1)
    expect(done.returncode == 1 and b'scores' in done.stderr, done)
