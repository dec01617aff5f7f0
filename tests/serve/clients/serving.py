"""The default model behind `mica serve`, for the tests of clients.

A test is called as TEST MICA FOLDER [WORD...]; FOLDER holds the clients' packages, which
tools/setup-clients installs.
"""
import contextlib
import importlib
import os
import re
import signal
import subprocess
import sys
import tempfile

MICA, FOLDER = sys.argv[1:3]
ROOT = os.path.abspath(__file__ + "/../../../..")
MODEL = ROOT + "/models/default"


def find(name):
    """Imports a package of FOLDER or of the system; ends the test as skipped (77) without it."""
    if FOLDER not in sys.path:
        sys.path.insert(0, FOLDER)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        print(f"there is no package {name}: tools/setup-clients installs it")
        sys.exit(77)


@contextlib.contextmanager
def served(*options, models=(MODEL,)):
    """A server's address. It must end well when it is told to. It finds no other models, whatever
    lies in the user's caches."""
    command = [MICA, "serve", "--port", "0", *options, *models]
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("HF_", "XDG_", "MICA_MODELS", "MICA_GGUF_CACHE"))}
    with tempfile.TemporaryDirectory() as home:
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True,
                                  env={**kept, "HOME": home})
        try:
            yield re.search(r" at (http://\S+)", server.stderr.readline()).group(1)
        finally:
            server.send_signal(signal.SIGTERM)
            code = server.wait(60)
            server.stderr.close()
        # A signal of Linux ends what Wine runs at once: there are none on Windows.
        assert code == (-signal.SIGTERM if "MICA_TEST_WINE" in os.environ else 0), code


def run(*words, stdin=""):
    """What mica's command prints."""
    return subprocess.run([MICA, *words], check=True, capture_output=True, text=True,
                          input=stdin).stdout.strip()


def raises(kind, call, *words):
    """The call must fail with that error, whose text has all of the words."""
    try:
        call()
    except kind as error:
        for word in words:
            assert word in str(error), (word, error)
    else:
        raise AssertionError(f"{kind.__name__} was not raised")
