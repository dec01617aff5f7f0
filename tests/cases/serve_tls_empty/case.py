"""An empty certificate, as a full disk or a failed renewal leaves it, is refused: the server does
not answer in the clear."""
from support import Wrong, expect

NEEDS = ['serve']


def check(t):
    empty = t.write('empty.pem', b'')
    try:
        server = t.serve(t.model, '--host', '127.0.0.1', '--threads', 1, '--tls-cert', empty,
                         '--tls-key', empty)
    except Wrong as refused:
        expect('empty.pem' in str(refused), refused)
        return
    with server:
        raise Wrong('it serves: ' + server.said)
