"""A download whose unfinished file is a FIFO, or a device, ends with an error and does not wait."""
import hashlib
import http.server
import json
import os
import threading

from support import expect

NEEDS = ['hub']
BODY = b'x' * 100000
SHA = hashlib.sha256(BODY).hexdigest()


class Hub(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = BODY
        if '/revision/' in self.path:
            body = json.dumps({'sha': 'a' * 40}).encode()
        elif '/tree/' in self.path:
            body = json.dumps([{'type': 'file', 'path': 'model.safetensors', 'size': len(BODY),
                                'oid': 'b' * 40, 'lfs': {'oid': SHA, 'size': len(BODY)}}]).encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def check(t):
    hub = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Hub)
    threading.Thread(target=hub.serve_forever, daemon=True).start()
    blobs = t.path('cache', 'models--org--name', 'blobs')
    os.makedirs(blobs)
    os.mkfifo(os.path.join(blobs, SHA + '.incomplete'))
    done = t.mica('pull', 'org/name', '--quiet', env={
        'HF_HUB_CACHE': t.path('cache'), 'no_proxy': '*',
        'HF_ENDPOINT': 'http://127.0.0.1:%d' % hub.server_port})
    hub.shutdown()
    expect(done.returncode == 1 and b'incomplete' in done.stderr, done)
