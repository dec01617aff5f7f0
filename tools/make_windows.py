#!/usr/bin/env python3
"""Makes what a build for Windows is published as: a zip that is unpacked anywhere, an installer
that needs no administrator, and manifests of both for winget and Scoop.

    tools/make_windows.py BUILD OUT MACHINE [--pages FOLDER] [--licences FOLDER] [--address URL]
                          [--homepage URL]

BUILD      a build's folder: mica.exe, libmica.dll, libmica.dll.a
OUT        the folder for mica-VERSION-windows-MACHINE.zip, mica-VERSION-windows-MACHINE-setup.exe
           (where NSIS's makensis is), scoop-MACHINE.json and winget-MACHINE/. The paths are printed
MACHINE    x86_64 or arm64
--address  the folder from which releases are downloaded; without it the manifests are not made
--homepage the project's page
The other options are those of tools/make_wheel.py.

The zip has one folder, mica-VERSION: the command, the model that comes with it, the library with
its headers, licences. It is the same bytes each time. Nothing is signed: whoever publishes it does
that.
"""
import argparse
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

from make_wheel import ROOT, add, licences, version

MACHINES = {'x86_64': ('x64', '64bit'), 'arm64': ('arm64', 'arm64')}
PUBLISHER = 'mica'
SUMMARY = 'Runs language models kept in the MLX / Hugging Face layout, where they lie'


def contents(arguments):
    """(name below the folder, bytes)"""
    build = pathlib.Path(arguments.build)
    yield 'mica.exe', (build / 'mica.exe').read_bytes()
    for name in ('libmica.dll', 'libmica.dll.a'):
        if (build / name).is_file():
            yield 'lib/' + name, (build / name).read_bytes()
    for path in (ROOT / 'include/mica').iterdir():
        yield 'include/mica/' + path.name, path.read_bytes()
    for path in (ROOT / 'models/default').iterdir():
        if path.name != 'golden.json':
            yield 'models/default/' + path.name, path.read_bytes()
    for name, text in licences(arguments).items():
        yield 'licences/' + name, text
    yield 'README.md', (ROOT / 'README.md').read_bytes()


def write_zip(path, folder, files):
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED, compresslevel=9) as packed:
        for name, content in files:
            add(packed, '%s/%s' % (folder, name), content, name.endswith('.exe'))


# NSIS's texts have 1,024 characters, and it reads a longer PATH as none: such a one is left alone.
SCRIPT = '''Unicode true
{target}
Name "mica {version}"
OutFile "{out}"
RequestExecutionLevel user
InstallDir "$LOCALAPPDATA\\Programs\\mica"
InstallDirRegKey HKCU "Software\\mica" "Folder"
SetCompressor /SOLID lzma
Page directory
Page instfiles
UninstPage uninstConfirm
UninstPage instfiles
!include "LogicLib.nsh"
!include "WinMessages.nsh"
!define UNINSTALL "Software\\Microsoft\\Windows\\CurrentVersion\\Uninstall\\mica"

; $0: the user's PATH; $1: 1 where it can be changed
; $2: the PATH with a semicolon at both ends; $3: where the folder is in it, -1: nowhere
!macro ReadPath un
Function ${{un}}ReadPath
  StrCpy $1 1
  StrCpy $3 -1
  ClearErrors
  ReadRegStr $0 HKCU "Environment" "Path"
  ${{If}} ${{Errors}}
    StrCpy $2 0
    ${{Do}}
      EnumRegValue $4 HKCU "Environment" $2
      IntOp $2 $2 + 1
      ${{If}} $4 == "Path"
        StrCpy $1 0
      ${{EndIf}}
    ${{LoopUntil}} $4 == ""
  ${{EndIf}}
  StrLen $4 "$0;$INSTDIR"
  ${{If}} $4 > 900
    StrCpy $1 0
  ${{EndIf}}
  ${{If}} $1 == 0
    Return
  ${{EndIf}}
  StrCpy $2 ";$0;"
  StrLen $4 ";$INSTDIR;"
  StrLen $5 $2
  ${{For}} $6 0 $5
    StrCpy $7 $2 $4 $6
    ${{If}} $7 == ";$INSTDIR;"
      StrCpy $3 $6
      ${{Break}}
    ${{EndIf}}
  ${{Next}}
FunctionEnd
!macroend
!insertmacro ReadPath ""
!insertmacro ReadPath "un."

!macro WritePath text
  WriteRegExpandStr HKCU "Environment" "Path" "${{text}}"
  SendMessage ${{HWND_BROADCAST}} ${{WM_SETTINGCHANGE}} 0 "STR:Environment" /TIMEOUT=5000
!macroend

Section
{install}
  WriteUninstaller "$INSTDIR\\uninstall.exe"
  WriteRegStr HKCU "Software\\mica" "Folder" "$INSTDIR"
  WriteRegStr HKCU "${{UNINSTALL}}" "DisplayName" "mica"
  WriteRegStr HKCU "${{UNINSTALL}}" "DisplayVersion" "{version}"
  WriteRegStr HKCU "${{UNINSTALL}}" "Publisher" "{publisher}"
  WriteRegStr HKCU "${{UNINSTALL}}" "UninstallString" '"$INSTDIR\\uninstall.exe"'
  WriteRegStr HKCU "${{UNINSTALL}}" "QuietUninstallString" '"$INSTDIR\\uninstall.exe" /S'
  WriteRegDWORD HKCU "${{UNINSTALL}}" "NoModify" 1
  WriteRegDWORD HKCU "${{UNINSTALL}}" "NoRepair" 1
  Call ReadPath
  ${{If}} $1 == 0
    DetailPrint "Your PATH is long and was left as it is: add $INSTDIR to it."
  ${{ElseIf}} $3 == -1
    ${{If}} $0 == ""
      !insertmacro WritePath "$INSTDIR"
    ${{Else}}
      !insertmacro WritePath "$0;$INSTDIR"
    ${{EndIf}}
  ${{EndIf}}
SectionEnd

Section "Uninstall"
{uninstall}
  Delete "$INSTDIR\\uninstall.exe"
  RMDir "$INSTDIR"
  DeleteRegKey HKCU "${{UNINSTALL}}"
  DeleteRegKey HKCU "Software\\mica"
  Call un.ReadPath
  ${{If}} $3 >= 0
    ; of ";a;FOLDER;b;" what comes before the folder and after it, then without the ends
    StrCpy $4 $2 $3
    StrLen $5 ";$INSTDIR"
    IntOp $5 $5 + $3
    StrCpy $6 $2 "" $5
    StrCpy $4 "$4$6"
    StrCpy $4 $4 "" 1
    StrCpy $4 $4 -1
    ${{If}} $4 == ""
      DeleteRegValue HKCU "Environment" "Path"
    ${{Else}}
      !insertmacro WritePath "$4"
    ${{EndIf}}
  ${{EndIf}}
SectionEnd
'''

# What the installer itself runs on. One for 64-bit ARM has 32 bits of x86, which Windows 10 runs
# there; NSIS has none of its own.
TARGETS = {'x86_64': 'Target amd64-unicode', 'arm64': 'Target x86-unicode'}


def script(names, folder, out, machine):
    """The installer's text: it removes what it has installed, and nothing else."""
    install, uninstall, folders = [], [], set()
    for name in sorted(names):
        below, _, _ = name.rpartition('/')
        parts = below.split('/') if below else []
        folders.update('\\'.join(parts[:i + 1]) for i in range(len(parts)))
        windows = name.replace('/', '\\')
        where = '$INSTDIR\\' + below.replace('/', '\\') if below else '$INSTDIR'
        install += ['  SetOutPath "%s"' % where, '  File "%s"' % os.path.join(folder, name)]
        uninstall.append('  Delete "$INSTDIR\\%s"' % windows)
    uninstall += ['  RMDir "$INSTDIR\\%s"' % folder for folder in sorted(folders, reverse=True)]
    return SCRIPT.format(version=version(), out=out, publisher=PUBLISHER, target=TARGETS[machine],
                         install='\n'.join(install), uninstall='\n'.join(uninstall))


def make_installer(path, files, machine):
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files:
            file = pathlib.Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        text = script([name for name, _ in files], folder, os.path.abspath(path),
                      machine)
        pathlib.Path(folder, 'mica.nsi').write_text(text, encoding='utf-8')
        subprocess.run(['makensis', '-V2', os.path.join(folder, 'mica.nsi')], check=True)


def sum_of(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def scoop(address, homepage, packed, machine):
    name = os.path.basename(packed)
    return {'version': version(), 'description': SUMMARY, 'homepage': homepage, 'license': 'MIT',
            'architecture': {MACHINES[machine][1]: {
                'url': '%s/%s' % (address, name), 'hash': sum_of(packed),
                'extract_dir': 'mica-' + version()}},
            'bin': 'mica.exe'}


def winget(address, homepage, installer, machine):
    """{file: text}: the three that winget asks of a package."""
    name, head = 'mica.mica', 'PackageIdentifier: mica.mica\nPackageVersion: %s\n' % version()
    tail = 'ManifestType: %s\nManifestVersion: 1.6.0\n'
    return {
        name + '.yaml': head + 'DefaultLocale: en-US\n' + tail % 'version',
        name + '.locale.en-US.yaml':
            head + 'PackageLocale: en-US\nPublisher: %s\nPackageName: mica\nPackageUrl: %s\n'
            'License: MIT\nShortDescription: %s\n' % (PUBLISHER, homepage, SUMMARY)
            + tail % 'defaultLocale',
        name + '.installer.yaml':
            head + 'InstallerType: nullsoft\nScope: user\nInstallers:\n- Architecture: %s\n'
            '  InstallerUrl: %s/%s\n  InstallerSha256: %s\n' % (
                MACHINES[machine][0], address, os.path.basename(installer),
                sum_of(installer).upper()) + tail % 'installer',
    }


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('build')
    parser.add_argument('out')
    parser.add_argument('machine', choices=MACHINES)
    for name in ('--pages', '--licences', '--address', '--homepage'):
        parser.add_argument(name)
    return parser.parse_args()


def main():
    arguments = parse()
    os.makedirs(arguments.out, exist_ok=True)
    folder = 'mica-' + version()
    base = os.path.join(arguments.out, '%s-windows-%s' % (folder, arguments.machine))
    files = sorted(contents(arguments))
    packed, installer = base + '.zip', base + '-setup.exe'
    write_zip(packed, folder, files)
    print(packed)
    if not shutil.which('makensis'):
        print('makensis is not there: no installer', file=sys.stderr)
        return
    make_installer(installer, files, arguments.machine)
    print(installer)
    if not arguments.address:
        return
    homepage = arguments.homepage or arguments.address
    path = os.path.join(arguments.out, 'scoop-%s.json' % arguments.machine)
    with open(path, 'w', encoding='utf-8') as file:
        json.dump(scoop(arguments.address, homepage, packed, arguments.machine), file, indent=4)
        file.write('\n')
    print(path)
    manifests = pathlib.Path(arguments.out, 'winget-' + arguments.machine)
    manifests.mkdir(exist_ok=True)
    for name, text in winget(arguments.address, homepage, installer, arguments.machine).items():
        (manifests / name).write_text(text, encoding='utf-8')
        print(manifests / name)


if __name__ == '__main__':
    main()
