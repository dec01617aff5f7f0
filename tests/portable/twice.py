#!/usr/bin/env python3
"""The same bytes from another folder: every twentieth file of the library and of the command, and
all in C++, compiled in a copy of the tree by the commands of a build. Links join what is compared.

    twice.py BUILD
"""
import json
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def chosen(build):
    """(file, words) of what is compiled from the tree alone."""
    found = []
    for entry in json.loads((build / 'compile_commands.json').read_text(encoding='utf-8')):
        file = pathlib.Path(entry['file'])
        if file.is_relative_to(ROOT) and file.relative_to(ROOT).parts[0] in ('src', 'cli') and \
                'kern' not in file.parts:
            words = shlex.split(entry['command'])
            if words[0].endswith('ccache'):
                del words[0]
            found.append((file, words, entry['directory']))
    found.sort(key=lambda one: (one[0].suffix != '.cpp', str(one[0])))
    plain = sum(file.suffix == '.cpp' for file, _, _ in found)
    return found[:plain] + found[plain::20]


def compiled(words, directory, out):
    words = list(words)
    words[words.index('-o') + 1] = str(out)
    for option in ('-MF', '-MT'):
        if option in words:
            words[words.index(option) + 1] = str(out) + '.d'
    subprocess.run(words, cwd=directory, check=True)
    return out.read_bytes()


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as work:
        copy = pathlib.Path(work) / 'a folder/of another name'
        for folder in ('src', 'cli', 'include'):
            shutil.copytree(ROOT / folder, copy / folder)
        files = chosen(build)
        bad = 0
        for file, words, directory in files:
            here = compiled(words, directory, pathlib.Path(work) / 'here.o')
            moved = [word.replace(str(ROOT) + '/', str(copy) + '/')
                     if not word.replace('-I', '').startswith(str(build)) else word
                     for word in words]
            there = compiled(moved, work, pathlib.Path(work) / 'there.o')
            if here != there:
                bad += 1
                print('%s differs where it is compiled' % file.relative_to(ROOT))
    print('%d files compiled twice' % len(files))
    return bad > 0 or not files


if __name__ == '__main__':
    sys.exit(main())
