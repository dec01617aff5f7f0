#!/usr/bin/env python3
"""What the Python package takes the headers to say, held against a C compiler.

  layouts.py ROOT    with $CC

bindings/python/mica/_c.py and ops.py are what tools/make_python_layouts.py writes, and a C program
of assertions (every member's offset and size, every struct's size, every enum's number, every
function's parameters and result) compiles.
"""
import ctypes
import os
import pathlib
import subprocess
import sys
import types
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / 'bindings/python/mica'))
sys.dont_write_bytecode = True
import _c  # pylint: disable=wrong-import-position

PLAIN = {ctypes.c_bool: 'bool', ctypes.c_float: 'float', ctypes.c_double: 'double',
         ctypes.c_int: 'int', ctypes.c_int32: 'int32_t', ctypes.c_int64: 'int64_t',
         ctypes.c_uint32: 'uint32_t', ctypes.c_uint64: 'uint64_t', ctypes.c_size_t: 'size_t',
         ctypes.c_char_p: 'const char *', ctypes.c_void_p: 'void *'}


def structs_of(module):
    return {name: kind for name, kind in vars(module).items()
            if isinstance(kind, type) and issubclass(kind, ctypes.Structure)
            and kind is not ctypes.Structure}


def struct_lines(name, struct):
    for member, *_ in struct._fields_:
        there, value = getattr(struct, member), '((%s *)0)->%s' % (name, member)
        yield '_Static_assert(offsetof(%s, %s) == %d && sizeof(%s) == %d, "%s.%s");' % (
            name, member, there.offset, value, there.size, name, member)
    yield '_Static_assert(sizeof(%s) == %d, "%s");' % (name, ctypes.sizeof(struct), name)


def value_of(kind):
    """A C expression for a parameter: of the type, or of one that converts to no other kind. What
    is opaque here is a void pointer, which C takes for any pointer and for nothing else."""
    if kind is None:
        return ''
    if kind in PLAIN:
        return '(%s)0' % PLAIN[kind]
    if issubclass(kind, ctypes.Structure):
        return '(%s){0}' % kind.__name__
    if hasattr(kind, '_type_') and issubclass(kind, ctypes._Pointer):
        inner = kind._type_
        if inner is ctypes.c_char_p or inner is ctypes.c_void_p or hasattr(inner, 'contents'):
            return '(void *)0'
        return '(%s *)0' % (PLAIN[inner] if inner in PLAIN else inner.__name__)
    return '(%s)0' % next(n for n, k in vars(_c).items() if k is kind)


def function_line(name, returned, *parameters):
    call = '%s(%s)' % (name, ', '.join(map(value_of, parameters)))
    if returned is None:
        return call + ';'
    if returned in (ctypes.c_char_p, ctypes.c_void_p):
        return '{ const void *p = %s; (void)p; }' % call
    if returned in PLAIN and returned is not ctypes.c_int:
        return '_Static_assert(_Generic(%s, %s: 1, default: 0), "%s");' % (
            call, PLAIN[returned], name)
    if returned is ctypes.c_int:  # or an enum
        return '_Static_assert(sizeof(%s) == sizeof(int), "%s"); (void)(%s + 0);' % (
            call, name, call)
    return '(void)%s;' % call


def enum_lines(module, text):
    """Each constant of the headers, by the names that they have there."""
    for name, values in vars(module).items():
        if not name.startswith('mica_') or not isinstance(values, dict):
            continue
        body = text[text.index('typedef enum %s {' % name):].split('}')[0]
        names = [word for line in body.split('{')[1].split('\n')
                 for word in line.replace(',', ' ').split() if word.startswith('MICA_')
                 and word.isupper()]
        for value, number in values.items():
            constant = next(n for n in names if n.lower().endswith(value) and
                            len(n) - len(value) == len(names[0]) - len(list(values)[0]))
            yield '_Static_assert(%s == %d, "%s");' % (constant, number, constant)


def compiles(lines):
    unit = ('#include <mica/mica.h>\nvoid f(void);\nvoid f(void) {\n%s\n}\n' % '\n'.join(lines))
    done = subprocess.run(
        os.environ.get('CC', 'cc').split() + [
            '-std=c11', '-Wall', '-Wextra', '-Werror', '-Wno-unused-value', '-Wno-nonnull',
            '-fsyntax-only', '-I', str(ROOT / 'include'), '-x', 'c', '-'],
        input=unit.encode(), capture_output=True, check=False)
    return done.returncode == 0, done.stderr.decode()[:4000]


class Layouts(unittest.TestCase):
    def test_they_are_what_the_generator_writes(self):
        done = subprocess.run([sys.executable, str(ROOT / 'tools/make_python_layouts.py'),
                               '--check'], capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, b''))

    def test_they_are_the_headers(self):
        text = '\n'.join(p.read_text(encoding='utf-8')
                         for p in sorted((ROOT / 'include/mica').glob('*.h')))
        lines = [line for name, struct in structs_of(_c).items()
                 for line in struct_lines(name, struct)]
        lines += [function_line(name, *rest) for name, rest in _c.FUNCTIONS.items()]
        lines += list(enum_lines(_c, text))
        self.assertGreater(len(structs_of(_c)), 80)
        self.assertGreater(len(_c.FUNCTIONS), 500)
        self.assertEqual(compiles(lines), (True, ''))

    def test_all_functions_are_there(self):
        text = '\n'.join(p.read_text(encoding='utf-8')
                         for p in sorted((ROOT / 'include/mica').glob('*.h')))
        self.assertEqual(text.count('\nMICA_API '), len(_c.FUNCTIONS))

    def test_what_differs_is_seen(self):
        token = _c.mica_token._fields_
        swapped = [token[0], token[2], token[1]] + token[3:]
        for fields in (swapped, token[:-1], token[:3] + [('prompt', ctypes.c_int64)] + token[4:]):
            wrong = types.new_class('mica_token', (ctypes.Structure,), {},
                                    lambda ns, f=fields: ns.update(_fields_=f))
            self.assertFalse(compiles(struct_lines('mica_token', wrong))[0])
        for name, rest in {
                'mica_stream_cancel': (None,), 'mica_stream_next': (ctypes.c_int64,) +
                _c.FUNCTIONS['mica_stream_next'][1:],
                'mica_chat': _c.FUNCTIONS['mica_chat'][:-1],
                'mica_eval': (ctypes.c_int, ctypes.c_void_p, ctypes.c_int),
                'mica_is_not_there': (None,)}.items():
            self.assertFalse(compiles([function_line(name, *rest)])[0], name)


if __name__ == '__main__':
    unittest.main()
