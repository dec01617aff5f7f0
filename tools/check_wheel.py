#!/usr/bin/env python3
"""Checks that a wheel runs where its name says, by auditwheel's rules, and is what pip expects.

    tools/check_wheel.py WHEEL...
    tools/check_wheel.py --self-test

manylinux_2_28  the library and the command need nothing but glibc's libraries, in versions of 2.28
                or before, name no folders to look into, and their stacks are not executable
musllinux_1_2   they need nothing but musl's
linux           they are for this machine: what they need is not asked
macosx          they are Mach-O: tools/check_macho says what they need

RECORD lists every file with its sum. Needs readelf.
"""
import base64
import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
GLIBC = {'libc.so.6', 'libm.so.6', 'libpthread.so.0', 'libdl.so.2', 'librt.so.1',
         'ld-linux-x86-64.so.2', 'ld-linux-aarch64.so.1'}
MUSL = {'libc.musl-x86_64.so.1', 'libc.musl-aarch64.so.1'}
MACHINES = {'x86_64': 'Advanced Micro Devices X86-64', 'aarch64': 'AArch64'}


def number(version):
    return tuple(int(part) for part in version.split('.'))


def faults_of(said, platform):
    """What readelf says of a program that its platform does not have."""
    needed = set(re.findall(r'\(NEEDED\).*\[(.*)\]', said))
    system, *rest = re.fullmatch(r'(manylinux|musllinux)_(\d+)_(\d+)_.*', platform).groups()
    machine = platform.split('_', 3)[3]
    if MACHINES[machine] not in said:
        yield 'it is not for %s' % machine
    for name in sorted(needed - (GLIBC if system == 'manylinux' else MUSL)):
        yield 'it needs %s' % name
    for version in sorted(set(re.findall(r'Name: GLIBC_([0-9.]+)', said)), key=number):
        if system != 'manylinux':
            yield 'it needs glibc'
        elif number(version) > number('.'.join(rest)):
            yield 'it needs glibc %s' % version
    if re.search(r'\((RPATH|RUNPATH)\)', said):
        yield 'it names folders to look into'
    if re.search(r'GNU_STACK.*RWE', said):
        yield 'its stack is executable'
    if 'Requesting program interpreter' not in said and '(SONAME)' not in said:
        yield 'it is linked statically, and can load no libraries'


def readelf(data):
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return subprocess.run(['readelf', '-hdVlW', file.name], capture_output=True, check=True,
                              ).stdout.decode()


def check(path):
    """Texts of what is wrong with a wheel."""
    platform = path.rsplit('-', 1)[1][:-len('.whl')]
    with zipfile.ZipFile(path) as wheel:
        files = {name: wheel.read(name) for name in wheel.namelist()}
        if any(i.date_time != (1980, 1, 1, 0, 0, 0) for i in wheel.infolist()):
            yield 'files have times'
    record = next(name for name in files if name.endswith('.dist-info/RECORD'))
    rows = dict(line.split(',', 1) for line in files[record].decode().splitlines())
    for name in set(rows) ^ set(files):
        yield '%s is in the wheel or in RECORD alone' % name
    for name, data in files.items():
        want = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()
        if name != record and rows.get(name) != 'sha256=%s,%d' % (want, len(data)):
            yield '%s is not what RECORD says' % name
    programs = [name for name in files if 'libmica.' in name or name.endswith('scripts/mica')]
    if len(programs) != 2:
        yield 'it has the programs %s' % programs
    for name in programs:
        if str(ROOT).encode() in files[name]:
            yield '%s: it has the path of this folder' % name
        if not platform.startswith(('linux_', 'macosx_')):
            for fault in faults_of(readelf(files[name]), platform):
                yield '%s: %s' % (name, fault)


def self_test():
    good = '''Machine: Advanced Micro Devices X86-64
(NEEDED) Shared library: [libc.so.6]
(SONAME) [libmica.so.0]
 Name: GLIBC_2.14  Name: GLIBC_2.28
 GNU_STACK 0x000000 RW 0'''
    assert not list(faults_of(good, 'manylinux_2_28_x86_64'))
    musl = re.sub(r'libc.so.6|Name:.*', lambda m: 'libc.musl-x86_64.so.1' * (m[0][0] == 'l'), good)
    assert not list(faults_of(musl, 'musllinux_1_2_x86_64'))
    assert list(faults_of(musl.replace('libc.musl-x86_64.so.1', 'libc.so'), 'musllinux_1_2_x86_64'))
    for old, new, platform in (('libc.so.6', 'libstdc++.so.6', 'manylinux_2_28_x86_64'),
                               ('2.28', '2.29', 'manylinux_2_28_x86_64'),
                               ('2.28', '2.28', 'manylinux_2_17_x86_64'),
                               ('2.28', '2.28', 'manylinux_2_28_aarch64'),
                               ('2.28', '2.28', 'musllinux_1_2_x86_64'),
                               ('RW 0', 'RWE 0', 'manylinux_2_28_x86_64'),
                               ('SONAME', 'RUNPATH', 'manylinux_2_28_x86_64')):
        assert list(faults_of(good.replace(old, new), platform)), (old, new, platform)


def main():
    if sys.argv[1:] == ['--self-test']:
        self_test()
        return
    bad = 0
    for path in sys.argv[1:]:
        for fault in check(path):
            bad = 1
            print('%s: %s' % (path, fault))
    sys.exit(bad)


if __name__ == '__main__':
    main()
