#!/usr/bin/env python3
"""Measures the divergence of `fast` from `exact` arithmetic on text of the kind that the default
model was made from: random descriptions of Debian 12's packages. The model has seen most of them.
Those that cost it more than 3 nats per token count as unseen, because it is not known which ones
were held out.

    python3 bench/divergence.py BUILD_DIR TRANSLATION [--count 300] [--seed 5] [OPTION...]

TRANSLATION is Debian's dists/bookworm/main/i18n/Translation-en, plain or as .xz. Other options
(--cache int8) go to `mica eval`.
"""
import argparse
import json
import lzma
import math
import pathlib
import random
import re
import subprocess

PACKAGE = re.compile(r"^Package: (.*)$", re.M)
DESCRIPTION = re.compile(r"^Description-en: (.*)\n((?: .*\n?)*)", re.M)
UNSEEN = 3  # nats a token


def documents(path):
    """Descriptions as the model was trained on them: name, summary, and paragraphs of one line."""
    opened = (lzma.open if path.suffix == ".xz" else open)(path, "rt", encoding="utf-8")
    with opened as file:
        for entry in file.read().split("\n\n"):
            package, description = PACKAGE.search(entry), DESCRIPTION.search(entry)
            if not package or not description:
                continue
            lines = [line[1:].strip() for line in description[2].splitlines()]
            text = "\n".join("" if line == "." else line for line in lines)
            text = text.replace("\n\n", "\0").replace("\n", " ").replace("\0", "\n\n")
            yield f"{package[1]}: {description[1]}\n\n{text}"


def chosen(translation, count, seed):
    texts = [text for text in documents(translation) if 200 < len(text) < 900]
    return random.Random(seed).sample(texts, min(count, len(texts)))


def options(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=300, help="texts (300)")
    parser.add_argument("--seed", type=int, default=5, help="which are drawn (5)")
    return parser


def evaluate(mica, arguments, text):
    ran = subprocess.run([mica, "eval", "-q", "--json", "--compare", "exact", *arguments],
                         input=text, stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return json.loads(ran.stdout)


def report(rows):
    unseen = [r for r in rows if math.log(r["perplexity"]) > UNSEEN]
    for name, part in ("all", rows), ("unseen", unseen):
        tokens = sum(r["tokens"] for r in part)
        if tokens == 0:
            continue
        loss, kl, same = (sum(f(r) * r["tokens"] for r in part) / tokens for f in (
            lambda r: math.log(r["perplexity"]), lambda r: r["mean_kl"], lambda r: r["top_1_agreement"]))
        print(f"{name:8} {len(part):4} texts {tokens:7} tokens  loss {loss:.2f}  mean KL {kl:.6f}  "
              f"same top token {100 * same:.2f} %")


def main():
    parser = options(__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("translation", type=pathlib.Path)
    args, rest = parser.parse_known_args()
    report([evaluate(args.build / "mica", rest, text)
            for text in chosen(args.translation, args.count, args.seed)])


if __name__ == "__main__":
    main()
