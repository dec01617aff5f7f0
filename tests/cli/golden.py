#!/usr/bin/env python3
"""Asks a model the golden questions through the command, and compares its answers.

  golden.py MODEL COMMAND...    COMMAND: mica run with options, and what starts it
"""
import json
import os
import subprocess
import sys

model, command = sys.argv[1], sys.argv[2:]
with open(os.path.join(model, 'golden.json'), encoding='utf-8') as file:
    cases = [case for case in json.load(file) if len(case['messages']) == 1]
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
sys.exit(1 if wrong or not cases else 0)
