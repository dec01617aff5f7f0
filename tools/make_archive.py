#!/usr/bin/env python3
"""Makes an archive of a build that is unpacked anywhere: the command with its pages, the library
with its headers and the module for Go, licences. And, the same for all, one of the model that comes
with mica.

    tools/make_archive.py BUILD OUT PLATFORM [--pages FOLDER] [--licences FOLDER]

BUILD     a build's folder: mica, mica.pc and libmica.so.0, or libmica.0.dylib
OUT       the folder for mica-VERSION-PLATFORM.tar.gz, whose path is printed, and
          mica-VERSION-model.tar.gz
PLATFORM  such as linux-x86_64 or macos-arm64

Both have one folder, mica-VERSION, so that the second may be unpacked over the first: the command
finds the model beside itself. The options are those of tools/make_wheel.py.

What goes in is the same bytes each time, in the same order and without times: so is an archive.
"""
import gzip
import io
import os
import pathlib
import re
import tarfile

from make_wheel import ROOT, installed, library_of, licences, model, parse, version


def contents(arguments):
    """(name below the folder, bytes, whether it is a program)"""
    build, library = pathlib.Path(arguments.build), library_of(arguments.platform)
    yield from installed(arguments)
    yield 'lib/' + library, (build / library).read_bytes(), True
    for path in (ROOT / 'include/mica').iterdir():
        yield 'include/mica/' + path.name, path.read_bytes(), False
    for path in (ROOT / 'bindings/go').rglob('*'):
        if path.is_file() and not path.name.endswith('_test.go'):
            yield 'share/mica/go/%s' % path.relative_to(ROOT / 'bindings/go'), \
                path.read_bytes(), False
    # The static library, for which Libs.private is, is not here.
    packed = re.sub(r'Libs.private:.*\n', '', (build / 'mica.pc').read_text(encoding='utf-8'))
    yield 'lib/pkgconfig/mica.pc', packed.encode(), False
    for name, text in licences(arguments).items():
        yield 'share/doc/mica/licences/' + name, text, False
    yield 'share/doc/mica/README.md', (ROOT / 'README.md').read_bytes(), False


def write(path, folder, files, links=()):
    """Owned by nobody, of no time. links: (name, what it is a link to)"""
    entries = {name: (content, program) for name, content, program in files}
    with open(path, 'wb') as raw, gzip.GzipFile('', 'wb', 9, raw, mtime=0) as packed, \
            tarfile.open(fileobj=packed, mode='w', format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted((*entries, *dict(links))):
            entry = tarfile.TarInfo('%s/%s' % (folder, name))
            if name in entries:
                content, program = entries[name]
                entry.size, entry.mode = len(content), 0o755 if program else 0o644
                tar.addfile(entry, io.BytesIO(content))
            else:
                entry.type, entry.linkname = tarfile.SYMTYPE, dict(links)[name]
                entry.mode = 0o777
                tar.addfile(entry)


def main():
    arguments = parse(__doc__)
    folder, library = 'mica-' + version(), library_of(arguments.platform)
    path = os.path.join(arguments.out, '%s-%s.tar.gz' % (folder, arguments.platform))
    link = 'libmica' + os.path.splitext(library.replace('.so.0', '.so'))[1]
    write(path, folder, contents(arguments), [('lib/' + link, library)])
    write(os.path.join(arguments.out, folder + '-model.tar.gz'), folder, model())
    print(path)


if __name__ == '__main__':
    main()
