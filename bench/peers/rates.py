"""The arguments of programs that time several shapes of family_models.py."""
import argparse
from pathlib import Path


def rate_arguments(doc):
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE")
    parser.add_argument("--mica", default="build/mica")
    parser.add_argument("--models", type=Path, default=Path("build/peers/families"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--own-clock", action="store_true")
    return parser


def parse_rates(parser):
    args = parser.parse_args()
    args.threads = 1 if args.own_clock else args.threads
    args.models.mkdir(parents=True, exist_ok=True)
    return args
