#!/usr/bin/env python3
"""Names, paths and disks that are not as they should be, by Wine: the command fails, and nothing
is lost.

  hostile.py MICA MODEL

A full disk and one that may only be read are file systems in memory, which root mounts. Without
root there is no full disk, and folders lose their rights.
"""
import os
import subprocess
import sys
import tempfile

import tuning

mica, model = sys.argv[1:]


def fail(text):
    sys.exit('hostile.py: ' + text)


def refused(words, *texts):
    status, text = tuning.run(words)
    if status == 0:
        fail('%s is no error: %s' % (' '.join(words), text))
    if status not in (1, 2) or '\nmica: ' not in '\n' + text:
        fail('%s: status %d: %s' % (' '.join(words), status, text))
    if texts and not any(each in text for each in texts):
        fail('%s: wanted one of %s: %s' % (' '.join(words), texts, text))


def done(words):
    status, text = tuning.run(words)
    if status:
        fail('%s: status %d: %s' % (' '.join(words), status, text))
    return text


def names(work, data):
    """Devices, and names of which Windows makes others."""
    before = sorted(os.listdir(work))
    for name in ('NUL', 'com1', 'LPT9.txt', 'NUL/inside', 'a.', 'a ', 'a:b', 'CONOUT$'):
        where = os.path.join(work, name)
        refused(tuning.command(mica, data, where, '--iters', '1'))
        refused([mica, 'convert', model, where])
    refused([mica, 'show', os.path.join(work, 'aux')])
    if sorted(os.listdir(work)) != before:
        fail('refused names left %s' % (set(os.listdir(work)) - set(before)))


def paths(work, data):
    """Long ones, in folders that are not there yet, backslashes, other case."""
    deep = os.path.join(work, *['%d%s' % (i, 'x' * 60) for i in range(7)])
    done(tuning.command(mica, data, deep, '--iters', '2'))
    short = os.path.join(work, 'short')
    windows = 'Z:' + short.replace('/', '\\') + '\\inside'
    done(tuning.command(mica, data, windows, '--iters', '2'))
    if tuning.read(deep) != tuning.read(short + '/inside'):
        fail('a long path has other parameters')
    if os.listdir(short) != ['inside'] or [n for n in os.listdir('.') if n.startswith('.mica')]:
        fail('backslashes leave files elsewhere')
    loud = 'Z:' + os.path.dirname(model).replace('/', '\\') + '\\' + os.path.basename(model).upper()
    if done([mica, 'tokenize', '--model', loud, 'a b']) != done(
            [mica, 'tokenize', '--model', model, 'a b']):
        fail('a model by a name in another case')


class Disk:
    """A small file system in memory, or without root a folder."""

    def __init__(self, path):
        self.path = path
        os.mkdir(path)
        self.mounted = os.geteuid() == 0 and self.mount('-t', 'tmpfs', '-o', 'size=8m', 'mica')

    def mount(self, *words):
        return subprocess.run(('mount',) + words + (self.path,), stderr=subprocess.DEVNULL,
                              check=False).returncode == 0

    def fill(self):
        with open(self.path + '/filler', 'wb', buffering=0) as file:
            try:
                while file.write(bytes(4096)):
                    pass
            except OSError:
                pass

    def protect(self, on):
        if self.mounted:
            self.mount('-o', 'remount,' + ('ro' if on else 'rw'))
        else:
            os.chmod(self.path + '/tuned', 0o555 if on else 0o755)

    def remove(self):
        if self.mounted:
            subprocess.run(('umount', self.path), check=True)


def goes_on(words, folder, whole, what):
    """The training that failed ends as if it had not."""
    done(words)
    if tuning.read(folder) != whole:
        fail('%s: other parameters afterwards' % what)


def disks(work, data):
    disk = Disk(work + '/disk')
    try:
        folder = disk.path + '/tuned'
        begun = tuning.command(mica, data, folder, '--iters', '2')
        more = tuning.command(mica, data, folder, '--iters', '4')
        done(tuning.command(mica, data, work + '/whole', '--iters', '4'))
        whole = tuning.read(work + '/whole')
        done(begun)
        state = tuning.read(folder, 'tune_state.safetensors')
        if disk.mounted:
            disk.fill()
            refused(more, 'No space left', 'disk is full', 'cannot write')
            if tuning.read(folder, 'tune_state.safetensors') != state:
                fail('a full disk harms the checkpoint')
            if [name for name in os.listdir(folder) if name.startswith('.mica')]:
                fail('a full disk is left with unfinished files')
            os.remove(disk.path + '/filler')
        if disk.mounted or os.geteuid() != 0:
            disk.protect(True)
            refused(more, 'Read-only', 'ermission denied', 'cannot write')
            disk.protect(False)
            if tuning.read(folder, 'tune_state.safetensors') != state:
                fail('a folder that may only be read is written to')
        else:
            print('nothing can be mounted: no full disk, no folder without rights')
        goes_on(more, folder, whole, 'a full disk')
    finally:
        disk.remove()


with tempfile.TemporaryDirectory() as scratch:
    os.chdir(scratch)
    given = tuning.write_data(scratch)
    names(scratch, given)
    paths(scratch, given)
    disks(scratch, given)
print('names, paths, disks')
