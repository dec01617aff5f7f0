#!/usr/bin/env python3
"""Clients for Node, by node_clients.mjs.

   node_clients.py MICA FOLDER      FOLDER: has node_modules

Skipped (77) without Node or the packages.
"""
import os
import shutil
import subprocess
import sys

from serving import FOLDER, MODEL, served

SCRIPT = "node_clients.mjs"


def main():
    if not shutil.which("node") or not os.path.isdir(FOLDER + "/node_modules/openai"):
        print("there is no Node, or no package openai for it: tools/setup-clients installs it")
        sys.exit(77)
    # Node looks for packages above the script.
    shutil.copy(f"{os.path.dirname(os.path.abspath(__file__))}/{SCRIPT}", FOLDER)
    with served() as address:
        done = subprocess.run(["node", f"{FOLDER}/{SCRIPT}", address, MODEL + "/golden.json"],
                              check=False)
    assert done.returncode == 0, done.returncode
    print("openai, anthropic and ollama for Node passed")


main()
