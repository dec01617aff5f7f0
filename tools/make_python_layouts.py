#!/usr/bin/env python3
"""Writes what the Python package takes from the headers: bindings/python/mica/_c.py, the structs,
enums and functions of include/mica for ctypes, and bindings/python/mica/ops.py, the ops.

    tools/make_python_layouts.py            writes both
    tools/make_python_layouts.py --check    fails where they are not what it would write

The headers are the only source. tests/python/layouts.py has a C compiler compare what was written
with them: every offset, size, type and parameter.
"""
import difflib
import keyword
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = ROOT / 'include'
PACKAGE = ROOT / 'bindings/python/mica'

PLAIN = {
    'bool': 'c_bool', 'char': 'c_char', 'float': 'c_float', 'double': 'c_double', 'int': 'c_int',
    'int32_t': 'c_int32', 'int64_t': 'c_int64', 'uint8_t': 'c_uint8', 'uint16_t': 'c_uint16',
    'uint32_t': 'c_uint32', 'uint64_t': 'c_uint64', 'size_t': 'c_size_t', 'unsigned': 'c_uint',
}


# ---- reading headers ----

def headers():
    """Texts of all headers, each behind those that it includes."""
    done = []

    def add(name):
        if name in done:
            return
        text = (INCLUDE / name).read_text(encoding='utf-8')
        for other in re.findall(r'#include <(mica/[a-z_]+\.h)>', text):
            if other != name:
                add(other)
        done.append(name)

    add('mica/mica.h')
    return [(INCLUDE / name).read_text(encoding='utf-8') for name in done]


class Header:
    """Declarations of a header, as (text, comment before it), and its numbers."""

    def __init__(self, text):
        self.numbers = {name: int(value) for name, value in
                        re.findall(r'^#define (MICA_[A-Z_]+) (\d+)$', text, re.M)}
        text = re.sub(r'#ifdef __cplusplus\n(.*?)#(?:else\n(.*?)#)?endif',
                      lambda m: m.group(2) or '', text, flags=re.S)
        comments = []

        def keep(match):
            if not match.group().startswith('/**'):
                return ' '
            comments.append(match.group())
            return ' \x01%d\x01 ' % (len(comments) - 1)

        text = re.sub(r'/\*.*?\*/', keep, text, flags=re.S)
        text = re.sub(r'^#.*?[^\\]$', '', text, flags=re.M | re.S)
        text = re.sub(r'\bMICA_(API|BEGIN|END)\b', '', text)
        self.declarations = []
        comment = ''
        for part in self.split(text):
            found = re.findall(r'\x01(\d+)\x01', part.split('{')[0])
            if found:
                comment = comments[int(found[-1])]
            part = ' '.join(re.sub(r'\x01\d+\x01', ' ', part).split())
            if part:
                self.declarations.append((part, comment))

    @staticmethod
    def split(text):
        """What ends with semicolons outside of braces."""
        depth, start = 0, 0
        for i, c in enumerate(text):
            depth += (c == '{') - (c == '}')
            if c == ';' and depth == 0:
                yield text[start:i]
                start = i + 1


class Api:
    """All that the headers declare."""

    def __init__(self):
        self.numbers = {}
        self.enums = {}      # name: [(constant, value)]
        self.structs = {}    # name: [(member, type)]
        self.callbacks = {}  # name: (result, [type])
        self.functions = {}  # name: (result, [(name, type)], comment)
        declared = []
        for text in headers():
            header = Header(text)
            self.numbers.update(header.numbers)
            declared += header.declarations
        self.opaque = {m.group(1) for text, _ in declared
                       for m in [re.fullmatch(r'typedef struct (\w+) \1', text)] if m}
        for text, comment in declared:
            self.declare(text, comment)

    def declare(self, text, comment):
        enum = re.fullmatch(r'typedef enum (\w+) \{(.*)\} \1', text)
        struct = re.fullmatch(r'typedef struct (\w+) \{(.*)\} \1', text)
        callback = re.fullmatch(r'typedef (.+?)\(\*(\w+)\)\((.*)\)', text)
        function = re.fullmatch(r'([\w ]+?[ *]+)(mica_\w+)\((.*)\)', text)
        if enum:
            self.enums[enum.group(1)] = list(self.values(enum.group(2)))
        elif struct:
            self.structs[struct.group(1)] = list(self.members(*struct.groups()))
        elif callback:
            self.callbacks[callback.group(2)] = self.signature(callback.group(1),
                                                               callback.group(3))
        elif function:
            result, parameters = function.group(1), function.group(3)
            self.functions[function.group(2)] = (
                self.type(result), list(self.parameters(parameters)), comment)
        elif not re.fullmatch(r'(typedef )?struct (\w+)( \2)?', text):
            sys.exit('make_python_layouts: what is this? ' + text)

    @staticmethod
    def values(body):
        value = 0
        for item in filter(None, (part.strip() for part in body.split(','))):
            name, _, given = item.partition('=')
            value = int(given) if given else value
            yield name.strip(), value
            value += 1

    def members(self, struct, body):
        for item in filter(None, (part.strip() for part in body.split(';'))):
            pointer = re.fullmatch(r'(.+?)\(\*(\w+)\)\((.*)\)', item)
            if pointer:
                result, name, parameters = pointer.groups()
                callback = '%s_%s_fn' % (struct, name)
                self.callbacks[callback] = self.signature(result, parameters)
                yield name, callback
                continue
            head, *others = item.split(',')
            kind, name, length = re.fullmatch(r'(.+?)(\w+)(?:\[(\w+)\])?', head).groups()
            for other in [name] + [o.strip() for o in others]:
                one = self.type(kind)
                if length:
                    one = '%s * %s' % (one, self.numbers.get(length, length))
                yield other, one

    def parameters(self, text):
        for item in [] if text.strip() in ('void', '') else text.split(','):
            kind, name, array = re.fullmatch(r'\s*(.+?)(\w+)(\[\w*\])?\s*', item).groups()
            if name in PLAIN or name.startswith('mica_'):  # without a name
                kind, name = kind + name, ''
            yield name, self.type(kind + ('*' if array else ''))

    def signature(self, result, parameters):
        return self.type(result), [kind for _, kind in self.parameters(parameters)]

    def type(self, text):
        """The ctypes type of a C type, as an expression."""
        constant = text.replace(' ', '').startswith('constchar')
        text = re.sub(r'\b(const|struct)\b', ' ', text)
        stars = text.count('*')
        name = text.replace('*', ' ').strip()
        if name == 'void':
            return wrapped('c_void_p', stars - 1) if stars else 'None'
        if name == 'char' and stars:
            return wrapped('c_char_p' if constant else 'c_void_p', stars - 1)
        if name in PLAIN:
            return wrapped(PLAIN[name], stars)
        if name in self.enums:
            return wrapped('c_int', stars)
        if name in self.opaque or name not in self.structs and name not in self.callbacks:
            return wrapped('c_void_p', stars - 1)
        return wrapped(name, stars)


def wrapped(kind, stars):
    return 'POINTER(' * stars + kind + ')' * stars


def prefix(names):
    """What the constants of an enum begin with, up to an underscore."""
    first, last = min(names), max(names)
    n = 0
    while n < len(first) and n < len(last) and first[n] == last[n]:
        n += 1
    return first[:first.rfind('_', 0, n) + 1]


# ---- _c.py ----

HEAD = '''"""The structs, enums and functions of mica's headers, for ctypes.

Made by tools/make_python_layouts.py: do not edit."""
from ctypes import (CFUNCTYPE, POINTER, Structure, c_bool, c_char, c_char_p, c_double, c_float,
                    c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p)
from typing import Any, Dict, Tuple

'''


def annotation(kind):
    if kind.startswith('POINTER') or '*' in kind or kind.startswith('mica_'):
        return 'Any'
    if kind in ('c_float', 'c_double'):
        return 'float'
    return {'c_bool': 'bool', 'c_char_p': 'Any', 'c_void_p': 'Any'}.get(kind, 'int')


def layouts(api):
    out = [HEAD]
    for name, value in api.numbers.items():
        out.append('%s = %d\n' % (name, value))
    out.append('\n# ---- enums: numbers by what their names have behind the common beginning ----\n\n')
    for name, values in api.enums.items():
        cut = len(prefix([n for n, _ in values]))
        out.append('%s: Dict[str, int] = {\n' % name)
        out += ['    "%s": %d,\n' % (n[cut:].lower(), value) for n, value in values]
        out.append('}\n')
    out.append('\n\n# ---- structs ----\n')
    for name, members in api.structs.items():
        out.append('\n\nclass %s(Structure):\n' % name)
        out += ['    %s: %s\n' % (member, annotation(kind)) for member, kind in members
                if not keyword.iskeyword(member)]
    out.append('\n\n# ---- functions that mica calls ----\n\n')
    for name, (result, kinds) in api.callbacks.items():
        out.append(fill('%s = CFUNCTYPE(' % name, [result] + kinds, ')'))
    out.append('\n# ---- members ----\n\n')
    for name, members in api.structs.items():
        out.append('%s._fields_ = [\n' % name)
        out += ['    ("%s", %s),\n' % member for member in members]
        out.append(']\n')
    out.append('\n# ---- functions: what they return, and their parameters ----\n\n')
    out.append('FUNCTIONS: Dict[str, Tuple[Any, ...]] = {\n')
    for name, (result, parameters, _) in api.functions.items():
        kinds = [kind for _, kind in parameters]
        out.append(fill('    "%s": (' % name, [result] + kinds, '),' if kinds else ',),'))
    out.append('}\n')
    return ''.join(out)


def fill(begin, items, end):
    """A list in lines of 99 columns."""
    lines, line = [], begin
    for i, item in enumerate(items):
        item += ', ' if i + 1 < len(items) else end
        if len((line + item).rstrip()) > 99 and line != begin:
            lines.append(line.rstrip())
            line = ' ' * len(begin)
        line += item
    return '\n'.join(lines + [line]) + '\n'


# ---- ops.py ----

OPS_HEAD = '''"""Ops on arrays: mica/ops.h, mica/nn.h and mica/signal.h, one function each.

An op records a node in its scope and returns at once: that of the innermost `with mica.Scope()`,
else that of its first array. Numbers stand for arrays without axes. Each function's help is the
header's comment, in which s is the scope.

Made by tools/make_python_layouts.py: do not edit."""
from typing import Optional, Sequence

from ._array import Array, Operand, axes_of, begin, dtype_number, list_of, made, number_of, \\
    numbers_of, order_of, shape_of
'''

# C parameters and what they are in Python: (types of the C parameters; the Python one's annotation;
# the lines before the call; the arguments of the call). %s is the name.
FORMS = [
    (['const int64_t *', 'int'], 'Sequence[int]', 'shape_of(%s)'),
    (['const int *', 'int'], 'Optional[Sequence[int]] = None', 'axes_of(%s)'),
    (['const mica_array *', 'int'], 'Sequence[Operand]', 'list_of(s, %s)'),
    (['const int *'], 'Optional[Sequence[int]] = None', 'order_of(x, %s)'),
    (['const int64_t *'], 'Optional[Sequence[int]] = None', 'numbers_of(x, %s)'),
    (['mica_array'], 'Operand', 'number_of(s, %s)'),
    (['mica_dtype'], 'str', 'dtype_number(%s)'),
    (['bool'], 'bool = False', '%s'),
    (['int'], 'int', '%s'),
    (['int64_t'], 'int', '%s'),
    (['uint64_t'], 'int', '%s'),
    (['float'], 'float', '%s'),
    (['double'], 'float', '%s'),
]
# Lists without a number have one for each axis of x, in these alone.
BY_AXIS = {'transpose', 'slice', 'slice_update', 'pad', 'pad_edge'}
RESERVED = {'from': 'source', 'lambda': 'lambd', 'is': 'is_'}


def raw_parameters(text):
    """(C type, name) of each parameter, pointers with their const."""
    for item in text.split(','):
        kind, name = re.fullmatch(r'\s*(.+?)(\w+)\s*', item).groups()
        yield re.sub(r'\s*\*\s*', ' *', kind.strip()), name


def python_parameters(parameters):
    """(name, annotation, argument) of each, or None where there is one of no form."""
    result, at = [], 0
    while at < len(parameters):
        for kinds, note, argument in FORMS:
            here = parameters[at:at + len(kinds)]
            names = [name for _, name in here]
            counted = len(kinds) < 2 or len(names) == 2 and names[1].startswith(('n', 'ndim'))
            if [kind for kind, _ in here] == kinds and counted:
                name = RESERVED.get(names[0], names[0])
                if name == 's':
                    return None
                result.append((name, note, argument % name, len(kinds)))
                at += len(kinds)
                break
        else:
            return None
    return result


def ops():
    out, skipped = [OPS_HEAD], []
    for header in ('ops', 'nn', 'signal'):
        for text, comment in Header((INCLUDE / 'mica' / (header + '.h')).read_text('utf-8')
                                    ).declarations:
            function = re.fullmatch(r'mica_array mica_(\w+)\(mica_scope \*s, (.*)\)', text)
            if not function:
                continue
            name, parameters = function.groups()
            parameters = python_parameters(list(raw_parameters(parameters)))
            by_axis = parameters and any('_of(x,' in argument for _, _, argument, _ in parameters)
            if parameters is None or by_axis and name not in BY_AXIS:
                skipped.append(name)
            else:
                out.append(op(name, parameters, comment))
    return ''.join(out), skipped


def broken(line, width=90):
    """A line, or several that begin as far to the right."""
    begin = line[:len(line) - len(line.lstrip())]
    while len(line) > width:
        at = line.rindex(' ', len(begin), width + 1)
        yield line[:at].rstrip()
        line = begin + line[at:].strip()
    yield line


def op(name, parameters, comment):
    # defaults may only stand behind parameters without
    notes, open_ = [], True
    for parameter, note, _, _ in reversed(parameters):
        open_ = open_ and '=' in note
        notes.append('%s: %s' % (parameter, note if open_ else note.split(' =')[0]))
    notes = list(reversed(notes))
    operands = [p for p, _, argument, _ in parameters if argument.startswith('number_of')]
    lists = [p for p, _, argument, _ in parameters if argument.startswith('list_of')]
    first = ', '.join(operands + ['*' + p for p in lists])
    arguments = ['*' * (count == 2) + argument for _, _, argument, count in parameters]
    lines = fill('def %s(' % name, notes, ') -> Array:')
    doc = re.sub(r'^\s*/\*\*\s?|\s*\*/$', '', comment)
    doc = '\n'.join(re.sub(r'^ \* ?', '', line) for line in doc.split('\n')).replace('\\', '\\\\')
    # the comment's lines have their own indentation, of " *  "
    doc = '\n'.join(part for line in doc.split('\n')
                    for part in broken(re.sub(r'^ (?=\S)', '', line)))
    body = '    """%s"""\n' % doc.replace('\n', '\n    ').replace('\n    \n', '\n\n')
    body += '    s = begin(%s)\n' % first
    body += fill('    return made(s, "mica_%s", ' % name, arguments, ')')
    return '\n\n' + lines + body


def main():
    text, skipped = ops()
    files = {PACKAGE / '_c.py': layouts(Api()), PACKAGE / 'ops.py': text}
    if sys.argv[1:] == ['--skipped']:
        print('\n'.join(skipped))
    elif sys.argv[1:] == ['--check']:
        bad = 0
        for path, want in files.items():
            have = path.read_text(encoding='utf-8') if path.exists() else ''
            if have != want:
                bad = 1
                print(''.join(list(difflib.unified_diff(
                    have.splitlines(True), want.splitlines(True), str(path.name), 'headers'))[:40]))
        if bad:
            sys.exit('The headers have changed: run tools/make_python_layouts.py')
    else:
        for path, want in files.items():
            path.write_text(want, encoding='utf-8')


if __name__ == '__main__':
    main()
