#!/usr/bin/env python3
"""Makes a wheel of the Python package, with the library and the command of a build inside.

    tools/make_wheel.py BUILD OUT PLATFORM [--pages FOLDER] [--licences FOLDER]

BUILD      a build's folder: mica and libmica.so.0, or libmica.0.dylib
OUT        the folder for mica-VERSION-py3-none-PLATFORM.whl, whose path is printed
PLATFORM   such as linux_x86_64 or manylinux_2_28_x86_64
--pages    manual pages and completions, as a build makes them
--licences texts of the licences of what is linked statically: a file each

What goes in is the same bytes each time, in the same order and without times: so is the wheel.
"""
import argparse
import base64
import hashlib
import os
import pathlib
import re
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGE = ROOT / 'bindings/python/mica'
DATA = 'share/mica/models/default'

METADATA = '''Metadata-Version: 2.1
Name: mica
Version: {version}
Summary: Runs language models kept in the MLX / Hugging Face layout, where they lie
License: {licence}
Requires-Python: >=3.9
Classifier: License :: OSI Approved :: MIT License
Classifier: Programming Language :: Python :: 3
Classifier: Typing :: Typed
Description-Content-Type: text/markdown
{files}
{readme}'''

WHEEL = '''Wheel-Version: 1.0
Generator: mica/tools/make_wheel.py
Root-Is-Purelib: false
Tag: py3-none-{platform}
'''


def version():
    header = (ROOT / 'include/mica/version.h').read_text(encoding='utf-8')
    return re.search(r'#define MICA_VERSION "(.+)"', header).group(1)


def readme():
    """The page for users of Python, its links to files of the tree as text."""
    page = (ROOT / 'docs/python.md').read_text(encoding='utf-8')
    return re.sub(r'\[([^\]]+)\]\((?!https?:)[^)]*\)', r'\1', page)


def library_of(platform):
    return 'libmica.0.dylib' if 'macos' in platform else 'libmica.so.0'


def installed(arguments):
    """(name below a prefix, bytes, whether it is a program): the command and its pages."""
    yield 'bin/mica', (pathlib.Path(arguments.build) / 'mica').read_bytes(), True
    for place, folder in [('share/man/man1', 'man1'),
                          ('share/bash-completion/completions', 'bash'),
                          ('share/zsh/site-functions', 'zsh'),
                          ('share/fish/vendor_completions.d', 'fish')]:
        pages = pathlib.Path(arguments.pages) / folder if arguments.pages else None
        for path in pages.iterdir() if pages else []:
            yield '%s/%s' % (place, path.name), path.read_bytes(), False


def model():
    for path in (ROOT / 'models/default').iterdir():
        if path.name != 'golden.json':
            yield '%s/%s' % (DATA, path.name), path.read_bytes(), False


def licences(arguments):
    """Texts by their names: mica's, the page's, and those of what is linked statically."""
    texts = {'LICENSE': (ROOT / 'LICENSE').read_bytes(),
             'page.txt': (ROOT / 'web/dist/LICENSES').read_bytes()}
    if arguments.licences:
        texts.update({path.name: path.read_bytes()
                      for path in pathlib.Path(arguments.licences).iterdir()})
    return texts


def contents(arguments):
    """(name in the wheel, bytes, whether it is a program) of all files but RECORD."""
    name = 'mica-' + version()
    info, data = name + '.dist-info/', name + '.data/'
    library = library_of(arguments.platform)
    for path in PACKAGE.glob('*'):
        if path.suffix == '.py' or path.name == 'py.typed':
            yield 'mica/' + path.name, path.read_bytes(), False
    yield 'mica/' + library, (pathlib.Path(arguments.build) / library).read_bytes(), False
    for path in pathlib.Path(arguments.build).glob('libmica_mpi-*'):  # which it looks for beside it
        yield 'mica/' + path.name, path.read_bytes(), False
    for file, content, program in (*installed(arguments), *model()):
        place = 'scripts/' + file[len('bin/'):] if program else 'data/' + file
        yield data + place, content, program
    texts = licences(arguments)
    for file, text in texts.items():
        yield info + 'licenses/' + file, text, False
    said = METADATA.format(
        version=version(), licence='MIT', readme=readme(),
        files=''.join('License-File: %s\n' % file for file in sorted(texts)))
    yield info + 'METADATA', said.encode(), False
    yield info + 'WHEEL', WHEEL.format(platform=arguments.platform).encode(), False


def write(path, files, record):
    """A zip without times. RECORD has the sums of the others."""
    lines = []
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, content, program in sorted(files):
            add(wheel, name, content, program)
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b'=')
            lines.append('%s,sha256=%s,%d\n' % (name, digest.decode(), len(content)))
        add(wheel, record, (''.join(lines) + record + ',,\n').encode(), False)


def add(wheel, name, content, program):
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system = 3
    entry.external_attr = (0o100755 if program else 0o100644) << 16
    wheel.writestr(entry, content)


def parse(text):
    """The arguments of this program, and of tools/make_archive.py."""
    parser = argparse.ArgumentParser(description=text,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('build')
    parser.add_argument('out')
    parser.add_argument('platform')
    parser.add_argument('--pages')
    parser.add_argument('--licences')
    arguments = parser.parse_args()
    os.makedirs(arguments.out, exist_ok=True)
    return arguments


def main():
    arguments = parse(__doc__)
    name = 'mica-' + version()
    path = os.path.join(arguments.out, '%s-py3-none-%s.whl' % (name, arguments.platform))
    write(path, list(contents(arguments)), name + '.dist-info/RECORD')
    print(path)


if __name__ == '__main__':
    main()
