"""A file whose list of tokens is a number, or not there, is refused by the key's name."""
import gguf_file
from support import expect


def check(t):
    data = gguf_file.rename(t.fixture('gguf', 'llama', 'model.gguf'), 'tokenizer.ggml.tokens',
                            'tokenizer.ggml.absent')
    for name, bytes_of in [('absent.gguf', data),
                           ('number.gguf', gguf_file.add_number(data, 'tokenizer.ggml.tokens', 7))]:
        done = t.mica('convert', t.write(name, bytes_of), t.path('out'), '--quiet')
        expect(done.returncode == 1 and b'tokenizer.ggml.tokens' in done.stderr, done)
