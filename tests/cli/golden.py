#!/usr/bin/env python3
"""Asks a model its golden conversations through the command, and compares its answers.

  golden.py --tokens N MODEL COMMAND...    COMMAND: mica batch with options, and what starts it

Those whose answer has more than N tokens are left out; three at least must remain. The command is
started once.
"""
import argparse
import json
import os
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument('--tokens', type=int, required=True)
parser.add_argument('model')
parser.add_argument('command', nargs=argparse.REMAINDER)
args = parser.parse_args()
with open(os.path.join(args.model, 'golden.json'), encoding='utf-8') as file:
    cases = [case for case in json.load(file) if len(case['greedy_ids']) <= args.tokens]
asked = ''.join(json.dumps({'id': i, 'messages': case['messages']}) + '\n'
                for i, case in enumerate(cases))
done = subprocess.run(args.command + [args.model, '-'], input=asked.encode(),
                      stdout=subprocess.PIPE, check=False)
lines = [json.loads(line) for line in done.stdout.splitlines()]
answers = {line['id']: line.get('text', line.get('error')) for line in lines}
wrong = 0
for i, case in enumerate(cases):
    if answers.get(i) != case['text']:
        print('%s\n  wanted %s\n  got    %s' % (
            case['messages'][-1]['content'], case['text'], answers.get(i)))
        wrong += 1
print('%d golden answers, %d of them conversations, %d wrong; exit status %d' % (
    len(cases), sum(len(case['messages']) > 1 for case in cases), wrong, done.returncode))
sys.exit(1 if wrong or done.returncode or len(cases) < 3 else 0)
