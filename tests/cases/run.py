#!/usr/bin/env python3
"""Runs one case: PASS and 0, FAIL and 1, or SKIP and 77.

  run.py [--have PART]... [--fail-malloc LIBRARY] MICA MODEL CASE

PART: what the command was built with (serve, hub, onnx, tls), or sanitizer.
"""
import argparse
import importlib.util
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.dont_write_bytecode = True
import support  # noqa: E402


def load(name):
    spec = importlib.util.spec_from_file_location(name, os.path.join(HERE, name, 'case.py'))
    case = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(case)
    return case


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--have', action='append', default=[])
    parser.add_argument('--fail-malloc')
    parser.add_argument('mica')
    parser.add_argument('model')
    parser.add_argument('case')
    args = parser.parse_args()
    case = load(args.case)
    missing = [part for part in getattr(case, 'NEEDS', ()) if part not in args.have]
    if missing:
        print('SKIP: built without ' + ', '.join(missing))
        return 77
    with tempfile.TemporaryDirectory() as out:
        try:
            case.check(support.Trial(args, os.path.join(HERE, args.case), out))
        except support.Skip as why:
            print('SKIP: %s' % why)
            return 77
        except support.Wrong as why:
            print('FAIL: %s\n\n%s' % (why, case.__doc__))
            return 1
    print('PASS')
    return 0


sys.exit(main())
