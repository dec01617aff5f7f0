#!/usr/bin/env python3
"""The hub and a server over TLS, by Wine: Windows' own (Schannel), with a certificate of ours.

  tls.py MICA MOCK_HUB MODEL

This machine's Python takes the TLS off for the mock hub and for `mica serve`, which speak plain
HTTP there. Where a file of certificates is named, libcurl checks against it: a certificate that is
not in it, and one for another name, are refused. Where none is named, Windows checks, and Wine 8
does not: that is not tested.
"""
import contextlib
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading

mica, mock_hub, model = sys.argv[1:]
COMMIT = '0123456789abcdef0123456789abcdef01234567'


def fail(text):
    sys.exit('tls.py: ' + text)


def make_certificate(folder, name):
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '2',
                    '-keyout', folder + '/key.pem', '-out', folder + name, '-subj',
                    '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost'],
                   stderr=subprocess.DEVNULL, check=True)


def copy(come, go):
    with contextlib.suppress(OSError):
        while True:
            data = come.recv(65536)
            if not data:
                break
            go.sendall(data)
    with contextlib.suppress(OSError):
        go.shutdown(socket.SHUT_RDWR)
    with contextlib.suppress(OSError):
        come.shutdown(socket.SHUT_RDWR)


class Proxy:
    """Takes TLS off, and counts the connections that speak it."""

    def __init__(self, folder, to):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(folder + '/cert.pem', folder + '/key.pem')
        self.to = to
        self.encrypted = 0
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                raw, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(raw,), daemon=True).start()

    def serve(self, raw):
        try:
            client = self.context.wrap_socket(raw, server_side=True)
        except OSError:
            return
        self.encrypted += 1
        server = socket.create_connection(('127.0.0.1', self.to))
        threading.Thread(target=copy, args=(server, client), daemon=True).start()
        copy(client, server)


def run(words, home, **variables):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(('HF_', 'XDG_', 'MICA_', 'SSL_CERT', 'CURL_CA', 'REQUESTS_CA'))
            and not name.lower().endswith('_proxy')}
    done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False,
                          env={**kept, 'HOME': home, **variables})
    return done.returncode, done.stdout.decode('utf-8', 'replace').replace('\r\n', '\n')


def refused(words, home, **variables):
    status, text = run(words, home, **variables)
    if status == 0 or 'https://' not in text:
        fail('%s with %s: status %d: %s' % (words, variables, status, text))


@contextlib.contextmanager
def started(words, home, stream, pattern):
    """A server by Wine, and its port."""
    kept = dict(os.environ, HOME=home)
    process = subprocess.Popen(words, stdin=subprocess.PIPE, env=kept, text=True,
                               **{stream: subprocess.PIPE})
    try:
        yield int(re.search(pattern, getattr(process, stream).readline()).group(1))
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()
        process.stdin.close()
        getattr(process, stream).close()


def check_hub(work, home):
    files = work + '/repos/org/tiny'
    shutil.copytree(model, files)
    # Large files of the mock hub are on a second port, whose address is one of plain HTTP.
    for name in os.listdir(files):
        if os.path.getsize(files + '/' + name) >= 4096:
            os.remove(files + '/' + name)
    with started([mock_hub, work + '/repos'], home, 'stdout', r'(\d+)') as port:
        proxy = Proxy(work, port)
        pull = [mica, 'pull', 'org/tiny']
        there = 'https://localhost:%d' % proxy.port
        for variable in ('SSL_CERT_FILE', 'CURL_CA_BUNDLE'):
            cache = work + '/cache-' + variable
            status, text = run(pull, home, HF_ENDPOINT=there, HF_HOME=cache,
                               **{variable: work + '/cert.pem'})
            if status:
                fail('%s: status %d: %s' % (variable, status, text))
            got = '%s/hub/models--org--tiny/snapshots/%s' % (cache, COMMIT)
            names = os.listdir(got)
            if 'config.json' not in names:
                fail('%s: downloaded %s' % (variable, names))
            for name in names:
                with open(files + '/' + name, 'rb') as a, open(got + '/' + name, 'rb') as b:
                    if a.read() != b.read():
                        fail('%s differs' % name)
        if proxy.encrypted < 2:
            fail('the hub was not asked by TLS')
        refused(pull, home, HF_ENDPOINT=there, HF_HOME=work + '/none',
                SSL_CERT_FILE=work + '/other.pem')
        refused(pull, home, HF_ENDPOINT='https://127.0.0.1:%d' % proxy.port,
                HF_HOME=work + '/none', SSL_CERT_FILE=work + '/cert.pem')


def check_server(work, home):
    serve = [mica, 'serve', model, '--port', '0']
    with started(serve, home, 'stderr', r'http://127\.0\.0\.1:(\d+)') as port:
        proxy = Proxy(work, port)
        there = 'https://localhost:%d' % proxy.port
        ps = [mica, 'ps', '--host', there]
        for words in (['--cacert', work + '/cert.pem'], ['--insecure']):
            status, text = run(ps + words, home)
            if status or 'default' not in text:
                fail('%s: status %d: %s' % (words, status, text))
        refused(ps + ['--cacert', work + '/other.pem'], home)
        refused([mica, 'ps', '--host', 'https://127.0.0.1:%d' % proxy.port, '--cacert',
                 work + '/cert.pem'], home)


if not shutil.which('openssl'):
    print('openssl is not installed')
    sys.exit(77)
with tempfile.TemporaryDirectory() as scratch:
    os.mkdir(scratch + '/home')
    make_certificate(scratch, '/other.pem')
    make_certificate(scratch, '/cert.pem')  # with the key that stays
    check_hub(scratch, scratch + '/home')
    check_server(scratch, scratch + '/home')
print('a hub and a server by TLS; certificates not trusted, or of another name, refused')
