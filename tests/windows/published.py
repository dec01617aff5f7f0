#!/usr/bin/env python3
"""What a build for Windows is published as, by Wine: tools/make_windows.py.

  published.py ROOT BUILD

The zip is the same bytes each time, and its command answers from another folder. The installer runs
in silence, the command answers from where it was put, PATH has its folder; its uninstaller leaves
nothing. The manifests have what winget and Scoop ask for, and the sums of those files.
"""
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile

root, build = sys.argv[1:3]
wine = os.path.join(root, 'tools/wine')
address = 'https://example.org/releases'


def fail(text):
    sys.exit('published.py: ' + text)


def run(*command, code=0):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False)
    text = done.stdout.decode('utf-8', 'replace').replace('\r\n', '\n')
    if code is not None and done.returncode != code:
        fail('%s: status %d\n%s' % (' '.join(command), done.returncode, text))
    return text


def answers(command, where):
    """The command finds the model that comes with it, and answers what the model's golden says."""
    with open(os.path.join(root, 'models/default/golden.json'), encoding='utf-8') as file:
        case = min((case for case in json.load(file) if len(case['messages']) == 1),
                   key=lambda case: len(case['greedy_ids']))
    got = run(wine, command, 'run', '--quiet', case['messages'][0]['content']).strip()
    if got != case['text'].strip():
        fail('%s: wanted %s, got %s' % (where, case['text'], got))


def make(out):
    paths = run('python3', os.path.join(root, 'tools/make_windows.py'), build, out, 'x86_64',
                '--address', address).split()
    return [path for path in paths if os.path.isfile(path)]


def check_zip(first, second, folder):
    if open(first, 'rb').read() != open(second, 'rb').read():
        fail('the zip is not the same bytes each time')
    with zipfile.ZipFile(first) as packed:
        packed.extractall(folder)
    own, = os.listdir(folder)
    answers(os.path.join(folder, own, 'mica.exe'), 'the zip')


def registry(key, *value):
    return run(wine, 'reg', 'query', key, *value, code=None)


def unix(path):
    return run(wine, 'winepath', '-u', path).strip()


def check_installer(setup):
    local = run(wine, 'cmd', '/c', 'echo %LOCALAPPDATA%').strip()
    where = local + '\\Programs\\mica'
    folder = unix(where)
    if os.path.exists(folder):
        fail('%s is there before' % folder)
    before = registry('HKCU\\Environment', '/v', 'Path')
    run(wine, setup, '/S')
    answers(where + '\\mica.exe', 'the installer')
    if where.lower() not in registry('HKCU\\Environment', '/v', 'Path').lower():
        fail('PATH has not %s' % where)
    if 'uninstall.exe' not in registry(
            'HKCU\\Software\\Microsoft\\Windows\\CurrentVersion\\Uninstall\\mica'):
        fail('the list of programs has no mica')
    run(wine, setup, '/S')  # over itself
    if registry('HKCU\\Environment', '/v', 'Path').lower().count(where.lower()) != 1:
        fail('PATH has %s twice' % where)
    run(wine, where + '\\uninstall.exe', '/S')
    deadline = time.monotonic() + 300  # it goes on as a copy of itself
    while os.path.exists(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    if os.path.exists(folder):
        fail('the uninstaller leaves %s' % os.listdir(folder))
    while registry('HKCU\\Environment', '/v', 'Path') != before and time.monotonic() < deadline:
        time.sleep(0.1)  # its last step
    if registry('HKCU\\Environment', '/v', 'Path') != before:
        fail('the uninstaller leaves another PATH than was there')
    for key in ('Software\\mica', 'Software\\Microsoft\\Windows\\CurrentVersion\\Uninstall\\mica'):
        if subprocess.run([wine, 'reg', 'query', 'HKCU\\' + key], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, check=False).returncode == 0:
            fail('the uninstaller leaves ' + key)


def sum_of(path):
    return hashlib.sha256(open(path, 'rb').read()).hexdigest()


def check_manifests(out, packed, setup):
    with open(os.path.join(out, 'scoop-x86_64.json'), encoding='utf-8') as file:
        scoop = json.load(file)
    own = scoop['architecture']['64bit']
    if own['url'] != '%s/%s' % (address, os.path.basename(packed)) or own['hash'] != sum_of(packed):
        fail("Scoop's manifest has not the zip")
    for key in ('version', 'description', 'homepage', 'license', 'bin'):
        if not scoop.get(key):
            fail("Scoop's manifest has no " + key)
    with zipfile.ZipFile(packed) as zipped:
        if '%s/%s' % (own['extract_dir'], scoop['bin']) not in zipped.namelist():
            fail("Scoop's program is not in the zip")
    folder = os.path.join(out, 'winget-x86_64')
    texts = {name: open(os.path.join(folder, name), encoding='utf-8').read()
             for name in os.listdir(folder)}
    kinds = sorted(re.search(r'^ManifestType: (\w+)$', text, re.M).group(1)
                   for text in texts.values())
    if kinds != ['defaultLocale', 'installer', 'version']:
        fail("winget's manifests are %s" % kinds)
    heads = {tuple(re.findall(r'^(PackageIdentifier|PackageVersion|ManifestVersion): (\S+)$', text,
                              re.M)) for text in texts.values()}
    if len(heads) != 1:
        fail("winget's manifests differ in %s" % heads)
    text, = (text for name, text in texts.items() if name.endswith('.installer.yaml'))
    if ('InstallerUrl: %s/%s\n' % (address, os.path.basename(setup)) not in text or
            'InstallerSha256: %s\n' % sum_of(setup).upper() not in text):
        fail("winget's manifest has not the installer")


if not shutil.which('makensis'):
    print('there is no makensis')
    sys.exit(77)
with tempfile.TemporaryDirectory() as work:
    made = make(os.path.join(work, 'first'))
    zips = [path for path in made if path.endswith('.zip')]
    setups = [path for path in made if path.endswith('-setup.exe')]
    again = [path for path in make(os.path.join(work, 'second')) if path.endswith('.zip')]
    check_zip(zips[0], again[0], os.path.join(work, 'unpacked'))
    check_installer(setups[0])
    check_manifests(os.path.join(work, 'first'), zips[0], setups[0])
print('zip, installer, uninstaller, manifests')
