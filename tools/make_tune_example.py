#!/usr/bin/env python3
"""Makes examples/tune/train.jsonl and valid.jsonl: questions on programs, answered in one manner.

    python3 tools/make_tune_example.py

The style is what is taught: every answer begins with "Aye!" and ends with "Fair winds!". The
answers are our own.
"""
import json
import pathlib

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "examples/tune"
QUESTIONS = ["What is {}?", "What does {} do?", "Tell me about {}."]

ANSWERS = {
    "awk": "reads text line by line and works on its fields",
    "bash": "runs commands that you type or that a script holds",
    "bc": "calculates with numbers of any precision",
    "cat": "prints files one after the other",
    "chmod": "changes who may read, write and run a file",
    "chown": "changes the owner of a file",
    "cmake": "describes how a program is built and writes the build files",
    "cp": "copies files and folders",
    "cron": "starts programs at set times",
    "curl": "transfers data from and to servers",
    "cut": "picks columns out of lines",
    "date": "prints or sets the date and the time",
    "dd": "copies raw blocks between files and disks",
    "df": "shows how much space the file systems have left",
    "diff": "shows how two files differ",
    "du": "adds up the space that folders take",
    "emacs": "edits text and is itself programmed in Lisp",
    "ffmpeg": "converts and records sound and video",
    "find": "looks for files by name, size, age and more",
    "gcc": "compiles programs in C",
    "gdb": "lets you step through a running program",
    "git": "keeps the history of a folder of files",
    "grep": "prints the lines that match a pattern",
    "gzip": "makes files smaller",
    "head": "prints the first lines of a file",
    "htop": "shows the running processes in colour",
    "kill": "sends a signal to a process",
    "less": "shows a text a page at a time",
    "ln": "makes links to files",
    "ls": "lists the files of a folder",
    "make": "builds what has changed since the last time",
    "mount": "attaches a file system to a folder",
    "mv": "moves and renames files",
    "nano": "edits text and shows its keys at the bottom",
    "nginx": "serves web pages and passes requests on",
    "patch": "applies the changes that diff has found",
    "ping": "tests whether another machine answers",
    "ps": "lists the running processes",
    "python": "runs programs in Python",
    "rm": "removes files for good",
    "screen": "keeps terminals alive when you log out",
    "sed": "edits a stream of text by commands",
    "sort": "puts lines in order",
    "sqlite": "keeps a database in a single file",
    "ssh": "opens a shell on another machine, encrypted",
    "tail": "prints the last lines of a file",
    "tar": "packs many files into one",
    "tmux": "divides a terminal into several",
    "top": "shows which processes use the processor most",
    "vim": "edits text by short commands",
    "wget": "downloads files from the web",
    "xargs": "turns lines into the arguments of a command",
    "zip": "packs files into an archive that Windows reads, too",
}
HELD_OUT = {
    "rsync": "copies files and sends only what has changed",
    "mutt": "reads and writes mail in a terminal",
    "docker": "runs programs in containers",
    "perl": "runs programs in Perl",
    "tcpdump": "shows the packets that pass on a network",
    "strace": "lists the system calls of a program",
    "valgrind": "finds errors in how a program uses memory",
    "gimp": "edits pictures",
}


def write(name, answers, questions):
    with open(FOLDER / name, "w") as file:
        for question in questions:
            for program, does in answers.items():
                answer = f"Aye! {program} is a tool that {does}. Fair winds!"
                line = {"prompt": question.format(program), "completion": answer}
                file.write(json.dumps(line) + "\n")


FOLDER.mkdir(exist_ok=True)
write("train.jsonl", ANSWERS, QUESTIONS)
write("valid.jsonl", HELD_OUT, QUESTIONS[:1])
