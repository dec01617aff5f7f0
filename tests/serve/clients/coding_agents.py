#!/usr/bin/env python3
"""Coding agents as they come, through a task with a tool: each is told to do something, the model
has it write a file by its shell, and is told the result.

   coding_agents.py MICA FOLDER claude|codex|opencode      FOLDER: has node_modules

The model's answers are scripted (scripted_model.py); its chat template refuses the orders of roles
that agents send, and marks no thoughts. Agents run in a folder of their own, which is their home,
too. Skipped (77) without the package: MICA_CLIENTS_AGENTS=1 tools/setup-clients installs it.
"""
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

import scripted_model

MICA, FOLDER, AGENT = sys.argv[1:4]
COMMAND, DONE = "echo made > by-tool", "All is written."
TASK = "Write the file."


def runs(command):
    done = subprocess.run([*command, "--version"], capture_output=True, check=False)
    return done.returncode == 0


def find(*patterns):
    """The first program of these that runs here; packages of several platforms may be there."""
    for pattern in patterns:
        for path in sorted(glob.glob(f"{FOLDER}/node_modules/{pattern}")):
            command = ["node", path] if path.endswith(".js") else [path]
            if os.access(path, os.X_OK) and runs(command):
                return command
    print(f"there is no {AGENT}: MICA_CLIENTS_AGENTS=1 tools/setup-clients installs it")
    sys.exit(77)


def claude(address, home):
    del home
    variables = {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_AUTH_TOKEN": "none",
                 "ANTHROPIC_MODEL": "scripted", "ANTHROPIC_SMALL_FAST_MODEL": "scripted",
                 "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
    return [*PROGRAM, "-p", TASK, "--allowedTools", "Bash,WebSearch"], variables


def codex(address, home):
    os.makedirs(f"{home}/.codex")
    with open(f"{home}/.codex/config.toml", "w", encoding="utf-8") as out:
        out.write('model = "scripted"\nmodel_provider = "mica"\n'
                  '[model_providers.mica]\nname = "mica"\nwire_api = "responses"\n'
                  f'base_url = "{address}/v1"\n')
    return [*PROGRAM, "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox",
            "-c", 'model_reasoning_effort="high"', TASK], {}


def opencode(address, home):
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "mica",
                "options": {"baseURL": address + "/v1"}, "models": {"scripted": {"name": "s"}}}
    with open(f"{home}/opencode.json", "w", encoding="utf-8") as out:
        json.dump({"provider": {"mica": provider}, "model": "mica/scripted",
                   "autoupdate": False}, out)
    return [*PROGRAM, "run", TASK], {}


AGENTS = {
    "claude": (claude, "Bash", {"command": COMMAND, "description": "writes"},
               ["@anthropic-ai/claude-code-*/claude", "@anthropic-ai/claude-code/bin/claude.exe"]),
    "codex": (codex, "exec_command", {"cmd": COMMAND}, ["@openai/codex/bin/codex.js"]),
    "opencode": (opencode, "bash", {"command": COMMAND, "description": "writes"},
                 ["opencode-*/bin/opencode", "opencode-ai/bin/opencode.exe"]),
}


def work(begin, folder):
    """Starts the server and the agent; returns what the agent printed, and the server's log."""
    server = subprocess.Popen([MICA, "serve", "--port", "0", "--model", f"{folder}/model",
                               "--name", "scripted", "--log"], stderr=subprocess.PIPE,
                              stdout=subprocess.DEVNULL, text=True)
    address = re.search(r" at (http://\S+)", server.stderr.readline()).group(1)
    home = f"{folder}/home"
    os.makedirs(home)
    command, variables = begin(address, home)
    path = os.environ.get("PATH", "/usr/bin:/bin")
    try:
        done = subprocess.run(command, cwd=home, stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False,
                              env={"HOME": home, "PATH": path, "SHELL": "/bin/bash", **variables})
    finally:
        server.send_signal(signal.SIGTERM)
        _, logged = server.communicate()
    return done.stdout + done.stderr, logged


BEGIN, TOOL, ARGUMENTS, PATTERNS = AGENTS[AGENT]
PROGRAM = find(*PATTERNS)


def main():
    with tempfile.TemporaryDirectory() as folder:
        scripted_model.build(f"{folder}/model", scripted_model.call_of(TOOL, **ARGUMENTS), DONE)
        printed, logged = work(BEGIN, folder)
        assert DONE in printed, (printed, logged)
        with open(f"{folder}/home/by-tool", encoding="utf-8") as made:
            assert made.read() == "made\n", printed
    if AGENT == "codex":
        assert "left out: tools: " in logged and "web_search" in logged, logged
    print(f"{AGENT} wrote the file")


main()
