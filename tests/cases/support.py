"""What the cases share: the command, its limits, a server."""
import http.client
import json
import os
import resource
import subprocess

HANGS = 100  # seconds; no run takes a tenth of it


class Wrong(Exception):
    """What is right does not happen."""


class Skip(Exception):
    """It cannot be tried here."""


def expect(right, what):
    if not right:
        raise Wrong(what)


class Trial:
    """One case: `here` is its folder, `out` an empty one, `model` the default model's."""

    def __init__(self, args, here, out):
        self.mica_path = os.path.abspath(args.mica)
        self.model = args.model
        self.fixtures = os.path.join(os.path.dirname(os.path.dirname(here)), 'fixtures')
        self.here = here
        self.out = out
        self.have = args.have
        self.sanitized = 'sanitizer' in args.have
        self.fail_malloc = args.fail_malloc

    def path(self, *parts):
        return os.path.join(self.out, *parts)

    def write(self, name, data):
        """A file of `out`; returns its path."""
        with open(self.path(name), 'wb') as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        return self.path(name)

    def fixture(self, *parts):
        with open(os.path.join(self.fixtures, *parts), 'rb') as file:
            return file.read()

    def mica(self, *args, env=None, prepare=None):
        """Runs the command to its end. It may fail, also to start, but not be killed or hang."""
        try:
            done = subprocess.run([self.mica_path, *map(str, args)], stdin=subprocess.DEVNULL,
                                  capture_output=True, check=False, timeout=HANGS,
                                  env=dict(os.environ, **(env or {})), preexec_fn=prepare)
        except subprocess.TimeoutExpired as hung:
            raise Wrong('hangs: mica ' + ' '.join(map(str, args))) from hung
        expect(done.returncode in (0, 1, 2, 127), 'ended by %d: %s' % (
            done.returncode, done.stderr.decode(errors='replace')[-2000:]))
        expect(b'runtime error' not in done.stderr, done.stderr.decode(errors='replace'))
        return done

    def succeed(self, *args):
        done = self.mica(*args)
        expect(done.returncode == 0, done.stderr.decode(errors='replace'))
        return done

    def bounded(self, seconds, mebibytes, *args):
        """Runs the command, which takes at most so much CPU and resident memory."""
        if self.sanitized:
            seconds, mebibytes = seconds * 6, mebibytes * 8
        with open(self.path('said'), 'wb') as said:
            child = subprocess.Popen(
                [self.mica_path, *map(str, args)], stdin=subprocess.DEVNULL, stdout=said,
                stderr=said, preexec_fn=lambda: resource.setrlimit(
                    resource.RLIMIT_CPU, (seconds + 3, seconds + 3)))
            _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        with open(self.path('said'), encoding='utf-8', errors='replace') as file:
            text = file.read()
        cpu, resident = used.ru_utime + used.ru_stime, used.ru_maxrss >> 10
        told = '%.1f s of CPU (limit %d), %d MiB (limit %d), exit status %d: %s' % (
            cpu, seconds, resident, mebibytes, child.returncode, text[-1000:])
        expect(child.returncode in (0, 1, 2) and cpu <= seconds and resident <= mebibytes, told)
        return child.returncode, text

    def serve(self, *args):
        return Server([self.mica_path, 'serve', '--port', '0', *map(str, args)])


class Server:
    """`mica serve` on a port of its own."""

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.said = ''
        for line in iter(self.process.stderr.readline, b''):
            self.said += line.decode()
            if '127.0.0.1:' in self.said:
                self.port = int(self.said.split('127.0.0.1:')[1].split()[0].strip('/'))
                return
        self.process.wait()
        raise Wrong('the server does not start: ' + self.said)

    def ask(self, path, body):
        """Posts JSON; returns the status and the parsed answer."""
        to = http.client.HTTPConnection('127.0.0.1', self.port, timeout=HANGS)
        to.request('POST', path, json.dumps(body), {'Content-Type': 'application/json'})
        answer = to.getresponse()
        parsed = json.loads(answer.read())
        to.close()
        return answer.status, parsed

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate()
