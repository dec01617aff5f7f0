#!/usr/bin/env python3
"""What examples/python/chat.py takes the headers to say, and what it leaves behind.

  python.py ROOT    with $CC, and the library in LD_LIBRARY_PATH
"""
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
MODEL = str(ROOT / 'models/default')
sys.path.insert(0, str(ROOT / 'examples/python'))
sys.dont_write_bytecode = True


def signals():
    """Those that are handled, ignored and blocked; None where the system does not tell."""
    if not os.path.exists('/proc/self/status'):
        return None
    with open('/proc/self/status', encoding='utf-8') as status:
        return [line for line in status if line.startswith(('SigCgt', 'SigIgn', 'SigBlk'))]


threading.Thread(target=signals).start()  # with the first one glibc handles a signal of its own
SIGNALS = signals()
import chat  # pylint: disable=wrong-import-position

# The C types that a ctypes one stands for.
TYPES = {
    ctypes.c_bool: ['bool'],
    ctypes.c_char_p: ['const char *'],
    ctypes.POINTER(ctypes.c_char): ['const char *'],
    ctypes.c_float: ['float'],
    ctypes.c_int: ['int', 'mica_status'],
    ctypes.c_int64: ['int64_t'],
    ctypes.c_size_t: ['size_t'],
}


def is_pointer(kind):
    return hasattr(kind, '_type_') and not isinstance(kind._type_, str)


def name_of(kind):
    """A C type that converts to the one of a parameter."""
    if kind is ctypes.c_void_p:
        return 'void *'
    if kind in TYPES:
        return TYPES[kind][-1]
    return name_of(kind._type_) + ' *' if is_pointer(kind) else kind.__name__


def is_type(value, kind):
    """The assertion that a C value has the type of a ctypes one."""
    if kind is ctypes.c_void_p:
        return '_Static_assert(sizeof(*(%s)) > 0, "%s");' % (value, value)
    cases = ', '.join('%s: 1' % name for name in TYPES[kind])
    return '_Static_assert(_Generic((%s), %s, default: 0), "%s");' % (value, cases, value)


def struct_lines(struct):
    name = struct.__name__
    for member, kind in struct._fields_:
        there = getattr(struct, member)
        value = '((%s *)0)->%s' % (name, member)
        yield '_Static_assert(offsetof(%s, %s) == %d, "%s.%s");' % (
            name, member, there.offset, name, member)
        yield is_type(value, kind)
    # Options may be cut behind a member. They end with it: padding would be read as another one.
    cut = struct._fields_[0][0] == 'struct_bytes'
    size = '(offsetof(%s, %s) + sizeof %s)' % (name, member, value) if cut else 'sizeof(%s)' % name
    yield '_Static_assert(%s == %d, "the size of %s");' % (size, ctypes.sizeof(struct), name)


def function_line(name, returned, *parameters):
    call = '%s(%s)' % (name, ', '.join('(%s)0' % name_of(kind) for kind in parameters))
    return is_type(call, returned) if returned else call + ';'


def compiles(structs, functions):
    """Whether the headers are as structs and functions say."""
    lines = [line for struct in structs for line in struct_lines(struct)]
    lines += [function_line(name, *rest) for name, rest in functions.items()]
    unit = '#include <mica/mica.h>\nvoid f(void);\nvoid f(void) {\n%s\n}\n' % '\n'.join(lines)
    done = subprocess.run(
        os.environ.get('CC', 'cc').split() + ['-std=c11', '-Wall', '-Wextra', '-Wconversion',
                                              '-Werror', '-fsyntax-only', '-I', str(ROOT / 'include'),
                                              '-x', 'c', '-'],
        input=unit.encode(), capture_output=True, check=False)
    return done.returncode == 0, done.stderr.decode()


def declared():
    return [kind for name, kind in vars(chat).items()
            if name.startswith('mica_') and hasattr(kind, '_fields_')]


class Headers(unittest.TestCase):
    def test_they_are_as_declared(self):
        names = {struct.__name__ for struct in declared()}
        self.assertEqual(names, {'mica_message', 'mica_generate_options', 'mica_token'})
        self.assertEqual(compiles(declared(), chat.FUNCTIONS), (True, ''))

    def test_what_differs_is_seen(self):
        def struct(name, fields):
            return type(name, (ctypes.Structure,), {'_fields_': fields})

        token, options = chat.mica_token._fields_, chat.mica_generate_options._fields_
        swapped = [token[0], token[2], token[1]] + token[3:]
        another = [token[0], token[1], ('len', ctypes.c_int64)] + token[3:]
        for wrong in (struct('mica_token', swapped), struct('mica_token', another),
                      struct('mica_token', token[:-1]),
                      struct('mica_generate_options', options[:-1]),
                      struct('mica_generate_options', options[:1] + options[2:])):
            self.assertFalse(compiles([wrong], {})[0], wrong._fields_)
        status, pointer = ctypes.c_int, ctypes.POINTER
        for wrong in ({'mica_stream_cancel': (None,)},
                      {'mica_stream_cancel': (None, pointer(chat.mica_session))},
                      {'mica_stream_next': (status, pointer(chat.mica_stream),
                                            pointer(chat.mica_token))},
                      {'mica_model_get_nothing': (None,)}):
            self.assertFalse(compiles([], wrong)[0], wrong)


class Memory(unittest.TestCase):
    """A model's file is mapped, and its device has threads, until the last handle is closed."""

    def setUp(self):
        if not os.path.exists('/proc/self/maps'):
            self.skipTest('there is no /proc/self/maps')
        self.expect_free()

    def is_mapped(self):
        with open('/proc/self/maps', encoding='utf-8') as maps:
            return 'model.safetensors' in maps.read()

    def expect_free(self):
        self.assertFalse(self.is_mapped())
        end = time.monotonic() + 60  # a thread that has ended is listed for a moment
        while len(os.listdir('/proc/self/task')) > 1 and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(len(os.listdir('/proc/self/task')), 1)

    def test_all_is_freed(self):
        pieces = []

        def write(piece):
            pieces.append(piece)
            self.assertTrue(self.is_mapped())

        chat.ask(MODEL, 'What is curl?', write, max_tokens=8)
        self.assertIn('curl', ''.join(pieces))
        self.assertLessEqual(len(pieces), 9)
        self.expect_free()

    def test_all_is_freed_after_an_error(self):
        def fail(piece):
            raise ValueError(piece)

        with self.assertRaises(ValueError):
            chat.ask(MODEL, 'What is curl?', fail)
        self.expect_free()


class Signals(unittest.TestCase):
    def test_they_are_the_programs(self):
        """The library changes none, neither while a model is open nor afterwards."""
        if not SIGNALS:
            self.skipTest('there is no /proc/self/status')
        self.assertEqual(len(SIGNALS), 3)
        with chat.opened(chat.mica_model, chat.lib.mica_model_open, os.fsencode(MODEL), None):
            chat.ask(MODEL, 'What is curl?', lambda piece: None, max_tokens=8)
            self.assertEqual(signals(), SIGNALS)
        self.assertEqual(signals(), SIGNALS)


class Forks(unittest.TestCase):
    def test_one_closes_what_it_got_and_opens_its_own(self):
        with chat.opened(chat.mica_model, chat.lib.mica_model_open, os.fsencode(MODEL),
                         None) as model:
            child = os.fork()
            if child == 0:
                right = False
                try:
                    signal.alarm(60)
                    pieces = []
                    chat.lib.mica_model_close(ctypes.byref(model))
                    chat.ask(MODEL, 'What is curl?', pieces.append)
                    right = ''.join(pieces).startswith('curl is')
                finally:
                    os._exit(0 if right else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            pieces = []
            chat.ask(MODEL, 'What is curl?', pieces.append)
            self.assertTrue(''.join(pieces).startswith('curl is'))


class Errors(unittest.TestCase):
    def test_of_a_call(self):
        with self.assertRaisesRegex(chat.MicaError, '/nowhere') as caught:
            chat.ask('/nowhere', 'What is curl?', print)
        self.assertEqual(caught.exception.status, 'MICA_ENOENT')

    def test_of_another_thread(self):
        """The text comes with the exception, though mica keeps it for the thread alone."""
        chat.lib.mica_session_reset.argtypes = [ctypes.POINTER(chat.mica_session)]
        chat.lib.mica_session_reset.restype = None
        size = ctypes.sizeof(chat.mica_message)
        message = chat.mica_message(size, b'user', b'What is curl?')
        with chat.opened(chat.mica_model, chat.lib.mica_model_open, os.fsencode(MODEL),
                         None) as model, \
                chat.opened(chat.mica_session, chat.lib.mica_session_open, model,
                            None) as session, \
                chat.opened(chat.mica_stream, chat.lib.mica_chat, session, message, 1,
                            None) as stream, \
                ThreadPoolExecutor(1) as pool:
            answer = pool.submit(chat.compute, stream,
                                 lambda piece: chat.lib.mica_session_reset(session))
            with self.assertRaisesRegex(chat.MicaError, '.') as caught:
                answer.result()
        self.assertEqual(caught.exception.status, 'MICA_EINVAL')
        self.assertNotEqual(str(caught.exception), chat.lib.mica_last_error().decode())


if __name__ == '__main__':
    unittest.main()
