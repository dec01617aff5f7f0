"""What programs have in common that time several shapes of family_models.py."""
import argparse
import json
import os
from pathlib import Path


def rate_arguments(doc):
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE")
    parser.add_argument("--mica", default="build/mica")
    parser.add_argument("--models", type=Path, default=Path("build/peers/families"))
    parser.add_argument("--threads", type=int, help="2; 1 with --own-clock")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--own-clock", action="store_true")
    parser.add_argument("--log", type=Path, help="a file that rounds are added to; those that are "
                        "there count, too: for machines that are quiet for minutes only")
    return parser


def parse_rates(parser):
    args = parser.parse_args()
    args.threads = args.threads or (1 if args.own_clock else 2)
    args.models.mkdir(parents=True, exist_ok=True)
    return args


def run_rounds(args, what, timers):
    """Times the functions of `timers` in turns. -> a list of rounds, each with what they returned,
    by name, and the load."""
    key = [*what, args.threads, args.own_clock, sorted(timers)]
    lines = args.log.read_text().splitlines() if args.log and args.log.exists() else []
    rounds = [done for line in lines for kind, done in [json.loads(line)] if kind == key]
    for i in range(len(rounds), len(rounds) + args.rounds):
        rates = {name: timers[name]() for name in list(timers)[::-1 if i % 2 else 1]}
        rounds.append({**rates, "load": os.getloadavg()[0]})
        if args.log:
            with args.log.open("a") as file:
                file.write(json.dumps([key, rounds[-1]]) + "\n")
    return rounds
