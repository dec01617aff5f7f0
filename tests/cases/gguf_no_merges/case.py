"""A vocabulary of the kind gpt2 without merges would be read letter by letter: it is refused."""
import gguf_file
from support import expect


def check(t):
    source = t.write('x.gguf', gguf_file.rename(t.fixture('gguf', 'llama', 'model.gguf'),
                                                'tokenizer.ggml.merges', 'tokenizer.ggml.absent'))
    done = t.mica('convert', source, t.path('out'), '--quiet')
    expect(done.returncode == 1 and b'merges' in done.stderr, done)
