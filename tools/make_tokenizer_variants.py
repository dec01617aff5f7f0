#!/usr/bin/env python3
"""Makes tests/text/variants: small tokenizers of every kind of step, and what the `tokenizers`
library does with them. The layout is that of tests/fixtures/tokenizers.

    python3 tools/make_tokenizer_variants.py      (needs the Python package tokenizers)
"""
import copy
import json
import pathlib
import shutil

import tokenizers
from tokenizers.decoders import DecodeStream

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests/text/variants"
BASE = json.loads((ROOT / "tests/fixtures/tokenizers/small/gemma-small/tokenizer.json").read_text())
MARK = "\u2581"

STRINGS = [
    "", " ", "  ", "a", " a", "a ", "hello world", "  hello   world  ", "\n", "a\n\nb", "\t", "word\r\n",
    "the there these", "é", "e\u0301", "日本語", "😀", "👩\u200d👩\u200d👧", "a😀b", "€", "\u2581", "\u2581a \u2581",
    "<one>", "a<one>b", " <one> ", "  <one>  <two>  <three>x", "<one><two>", "<on", "<onething>", "x <two>y",
    "big dog", "x<four> <four>  y <four>", "a big dog ran", "bigdog", " big  dog", "eee", "e", "tree house e", "seven",
    "<bos>", "a <eos> b", "\x00", "\x7f\x80\xff", "\u3000x\u3000<two>\u3000y", "\ufffd", "a\ufffdb",
    "<0x41>", "<0xE2>", "zzzz qqqq", "ab ab ab", "The quick brown fox, 1234567890!",
]


def added(content, id, **flags):
    row = dict(id=id, content=content, single_word=False, lstrip=False, rstrip=False, normalized=False,
               special=False)
    row.update(flags)
    return row


def base():
    t = copy.deepcopy(BASE)
    n = len(t["model"]["vocab"])
    t["added_tokens"] = t["added_tokens"][:4] + [
        added("<one>", n), added("<two>", n + 1, lstrip=True, rstrip=True),
        added("<three>", n + 2, special=True), added("<onething>", n + 3),
        added("big dog", n + 4, normalized=True), added("<four>", n + 5, rstrip=True, normalized=True),
    ]
    return t


def replace(pattern, content):
    return {"type": "Replace", "pattern": {"String": pattern}, "content": content}


def without(t, drop):
    """Takes tokens, and the merges that need them, out of the vocabulary."""
    kept = [token for token in t["model"]["vocab"] if not drop(token)]
    vocab = t["model"]["vocab"] = {token: i for i, token in enumerate(kept)}
    extra = [token for token in t["added_tokens"] if token["content"] not in vocab]
    for i, token in enumerate(extra):
        token["id"] = len(vocab) + i
    t["model"]["merges"] = [m for m in t["model"]["merges"]
                            if all(x in vocab for x in (m[0], m[1], m[0] + m[1]))]


def variants():
    t = base()
    t["normalizer"] = {"type": "Sequence", "normalizers": [
        {"type": "Prepend", "prepend": MARK}, replace(" ", MARK)]}
    t["pre_tokenizer"] = None
    t["decoder"] = {"type": "Sequence", "decoders": [
        replace(MARK, " "), {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    t["post_processor"]["single"].append({"SpecialToken": {"id": "<eos>", "type_id": 0}})
    t["post_processor"]["special_tokens"]["<eos>"] = {"id": "<eos>", "ids": [1], "tokens": ["<eos>"]}
    yield "prepend", t

    for scheme in ("always", "first", "never"):
        for split in (True, False):
            t = base()
            t["normalizer"] = None
            space = {"type": "Metaspace", "replacement": MARK, "prepend_scheme": scheme, "split": split}
            t["pre_tokenizer"] = t["decoder"] = space
            t["model"]["byte_fallback"] = False
            t["model"]["fuse_unk"] = split
            yield f"metaspace-{scheme}-{'split' if split else 'whole'}", t

    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            t = base()
            t["pre_tokenizer"] = {"type": "Split", "pattern": {"String": "e"}, "behavior": behavior,
                                  "invert": invert}
            yield f"split-{behavior.lower()}{'-invert' if invert else ''}", t

    t = base()
    t["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"String": MARK}, "behavior": "Isolated", "invert": False},
        {"type": "Split", "pattern": {"String": "th"}, "behavior": "MergedWithNext", "invert": False}]}
    t["post_processor"] = {"type": "Sequence", "processors": [t["post_processor"]]}
    t["model"]["ignore_merges"] = True
    t["model"]["merges"] = [" ".join(m) for m in t["model"]["merges"]]
    yield "split-sequence", t

    for fuse in (True, False):
        for unk in ("<unk>", None):
            t = base()
            t["decoder"] = t["post_processor"] = t["pre_tokenizer"] = None
            t["model"]["fuse_unk"] = fuse
            t["model"]["unk_token"] = unk
            without(t, lambda token: token == "<0xF0>" or token[0] != "<" and ("q" in token or "z" in token))
            yield f"unknown-{'fuse' if fuse else 'each'}{'' if unk else '-none'}", t

    for start in (0, 1):  # the library's Strip panics where both ends take the same character
        t = base()
        t["decoder"] = {"type": "Sequence", "decoders": [
            {"type": "Strip", "content": "e", "start": start, "stop": 1 - start}, replace(MARK, " ")]}
        yield f"strip-{'start' if start else 'stop'}", t


def pieces(tok, ids):
    stream = DecodeStream(skip_special_tokens=False)
    return [stream.step(tok, i) or "" for i in ids]


def record(tok, index, text):
    ids = tok.encode(text, add_special_tokens=False).ids
    full = tok.encode(text, add_special_tokens=True).ids
    before = tok.encode("", add_special_tokens=True).ids
    before = [i for i in before if i == 2]
    case = {"i": index, "ids": ids, "prefix": before, "suffix": full[len(before) + len(ids):]}
    assert full == before + ids + case["suffix"]
    decoded = tok.decode(ids, skip_special_tokens=False)
    case["decoded"] = decoded
    case["decoded_skip_special"] = tok.decode(ids, skip_special_tokens=True)
    try:
        case["pieces"] = pieces(tok, ids)
    except Exception:  # the library's stream gives up where earlier text changes
        pass
    return case


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    (OUT / "strings.json").write_text(json.dumps({"n": len(STRINGS), "strings": STRINGS}) + "\n")
    for name, t in variants():
        folder = OUT / "small" / name
        folder.mkdir(parents=True)
        text = json.dumps(t, ensure_ascii=False, separators=(",", ":"))
        (folder / "tokenizer.json").write_text(text + "\n")
        tok = tokenizers.Tokenizer.from_str(text)
        cases = [record(tok, i, s) for i, s in enumerate(STRINGS)]
        golden = {"file": f"small/{name}/tokenizer.json", "made_with": f"tokenizers {tokenizers.__version__}",
                  "cases": cases}
        (OUT / f"{name}.json").write_text(json.dumps(golden) + "\n")


main()
