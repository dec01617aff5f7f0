#!/usr/bin/env python3
"""Asks a model the golden questions through the command, and compares its answers.

  golden.py --tokens N MODEL COMMAND...    COMMAND: mica run with options, and what starts it

Questions whose answer has more than N tokens are left out; three at least must remain.
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
model, command = args.model, args.command
with open(os.path.join(model, 'golden.json'), encoding='utf-8') as file:
    cases = [case for case in json.load(file)
             if len(case['messages']) == 1 and len(case['greedy_ids']) <= args.tokens]
wrong = 0
for case in cases:
    question = case['messages'][0]['content']
    done = subprocess.run(command + [model, question], stdout=subprocess.PIPE, check=False)
    answer = done.stdout.decode('utf-8', 'replace').rstrip('\n')
    if done.returncode != 0 or answer != case['text'].rstrip('\n'):
        print('%s\n  exit status %d\n  wanted %s\n  got    %s' % (
            question, done.returncode, case['text'], answer))
        wrong += 1
print('%d golden answers, %d of them wrong' % (len(cases), wrong))
sys.exit(1 if wrong or len(cases) < 3 else 0)
