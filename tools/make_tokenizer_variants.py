#!/usr/bin/env python3
"""Makes tests/text/tokenizer/variants: small tokenizers of every kind of step, and what the
`tokenizers` library does with them. The layout is that of tests/fixtures/tokenizers.

    python3 tools/make_tokenizer_variants.py      (needs the Python package tokenizers)
"""
import copy
import json
import pathlib
import shutil

import tokenizers
from tokenizers.decoders import DecodeStream

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests/text/tokenizer/variants"
SMALL = ROOT / "tests/fixtures/tokenizers/small"
BYTES = json.loads((SMALL / "qwen-small/tokenizer.json").read_text())
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
BASE = json.loads((SMALL / "gemma-small/tokenizer.json").read_text())
FAMILIES = ROOT / "tests/fixtures/embedders"
WORDS = json.loads((FAMILIES / "bert_minilm/tokenizer.json").read_text())
UNIGRAM = json.loads((FAMILIES / "xlmr_reranker/tokenizer.json").read_text())
HEADS = ("<bos>", "[CLS]", "<s>")
MARK = "\u2581"

STRINGS = [
    "", " ", "  ", "a", " a", "a ", "hello world", "  hello   world  ", "\n", "a\n\nb", "\t", "word\r\n",
    "the there these", "é", "e\u0301", "日本語", "😀", "👩\u200d👩\u200d👧", "a😀b", "€", "\u2581", "\u2581a \u2581",
    "<one>", "a<one>b", " <one> ", "  <one>  <two>  <three>x", "<one><two>", "<on", "<onething>", "x <two>y",
    "big dog", "x<four> <four>  y <four>", "a big dog ran", "bigdog", " big  dog", "eee", "e", "tree house e", "seven",
    "<bos>", "a <eos> b", "\x00", "\x7f\x80\xff", "\u3000x\u3000<two>\u3000y", "\ufffd", "a\ufffdb",
    "\u0661\u0662\u0663 \u00bd \u2167 x\u00b2", "\u00c0\u00c9 \u0130STANBUL \u01c5 \u00df \u1e9e \u03a3\u03a3",
    "e\u0301\u0323 a\u0323\u0301 \u1e69\u0323", "\ufb01 \ufb03 \u2460 \u3300 \ufdfa", "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab",
    "don't I'LL '\u017f it's", "snake_case kebab-case a.b,c", "a\u180eb \u180e", "  lead\n\n  trail \n", "\u2028x\u2029",
    "foo\u200cbar\u200dbaz", "x<word>y <word> _<word>, <word>", "$100 + 200 = \u00a3300\u00a1", "\u24d0\u24d1 \U0001f130x",
    "1234567 12 345", "xxaxx x", "\u212b \u2126 \u0958 \u0344", "--a--b-", "a\u0903\u093eb \u0300", "\u0590\u05b0\u05bc\u05b7",
    "<0x41>", "<0xE2>", "zzzz qqqq", "ab ab ab", "The quick brown fox, 1234567890!",
    "hello\fworld", "hello\vworld \x85x\x85", "a\u200bb\u00adc \x1c\x1d d",
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


    yield from byte_level_variants()
    yield from normalizer_variants()
    yield from pre_tokenizer_variants()
    yield from wordpiece_variants()
    yield from unigram_variants()

    t = base()
    t["added_tokens"] += [added("<word>", len(t["model"]["vocab"]) + 6, single_word=True),
                          added("<x", len(t["model"]["vocab"]) + 7, single_word=True, normalized=True)]
    yield "single-word", t

    t = base()
    t["decoder"] = {"type": "Sequence", "decoders": [
        {"type": "Replace", "pattern": {"Regex": "[" + MARK + "aeiou]|q*$"}, "content": "-"},
        {"type": "ByteFallback"}, {"type": "Fuse"}]}
    yield "decode-regex", t


def byte_base():
    t = copy.deepcopy(BYTES)
    n = len(t["model"]["vocab"])
    t["added_tokens"] = [a for a in t["added_tokens"] if a["content"] in t["model"]["vocab"]] + [
        added("<one>", n), added("<two>", n + 1, lstrip=True, rstrip=True, normalized=True),
        added("\u00e9\u3000", n + 2, special=True)]
    t["normalizer"] = t["post_processor"] = None
    t["decoder"] = byte_level(True, True)
    return t


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def split(regex, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}


def byte_level(prefix, words):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": words}


def byte_level_variants():
    for prefix in (False, True):
        for words in (False, True):
            t = byte_base()
            t["pre_tokenizer"] = byte_level(prefix, words)
            yield f"bytes{'-prefix' if prefix else ''}{'-words' if words else ''}", t

    t = byte_base()
    t["pre_tokenizer"] = sequence(byte_level(False, True), {"type": "Digits", "individual_digits": True})
    yield "bytes-digits", t
    t = byte_base()
    t["pre_tokenizer"] = sequence(split(GPT2, "Removed", True), byte_level(False, False))
    t["model"]["ignore_merges"] = True
    yield "bytes-ignore-merges", t
    t = byte_base()
    t["pre_tokenizer"] = byte_level(False, True)
    t["decoder"] = {"type": "Sequence", "decoders": [replace("\u0120", "\u00e9"), byte_level(True, True),
                                                     {"type": "Fuse"}]}
    yield "bytes-replace", t
    for unk in (None, "a"):  # some bytes have no token
        t = byte_base()
        t["pre_tokenizer"] = byte_level(False, True)
        without(t, lambda token: any(c in token for c in "\u00a9\u0142q"))
        t["model"]["unk_token"] = unk
        yield f"bytes-missing{'-unk' if unk else ''}", t


def normalizer_variants():
    steps = {form.lower(): [{"type": form}] for form in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "ByteLevel")}
    steps["strip"] = [{"type": "Strip", "strip_left": True, "strip_right": True}]
    steps["strip-left"] = [{"type": "Strip", "strip_left": True, "strip_right": False}]
    steps["strip-accents"] = [{"type": "NFD"}, {"type": "StripAccents"}]
    steps["replace-regex"] = [{"type": "Replace", "pattern": {"Regex": "\\s+|(?i:HE)|x+(?=b)"}, "content": "<>"}]
    for name, list_ in steps.items():
        t = byte_base()
        t["normalizer"] = {"type": "Sequence", "normalizers": list_}
        t["pre_tokenizer"] = byte_level(False, True)
        yield f"normal-{name}", t


def pre_tokenizer_variants():
    behaviors = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
    steps = {"digits-each": {"type": "Digits", "individual_digits": True},
             "digits-runs": {"type": "Digits", "individual_digits": False},
             "whitespace": {"type": "Whitespace"}, "whitespace-split": {"type": "WhitespaceSplit"},
             "delimiter": {"type": "CharDelimiterSplit", "delimiter": "-"},
             "class": split(r"[^\s\p{P}[:digit:]]+|(?m:a.b)"), "space": split(r"\s"), "not-space": split(r"\S+"),
             "word": split(r"\w+"), "not-word": split(r"\W"), "not-space-class": split(r"[\S]"),
             "line": split(r"^.|.$"), "numbers": split(r"\p{N}{1,3}(?=(?:\d{3})*\b)"),
             "o200k": split(r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
                            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+"
                            r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|"
                            r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")}
    for behavior in behaviors:
        steps[f"punctuation-{behavior.lower()}"] = {"type": "Punctuation", "behavior": behavior}
        for invert in (False, True):
            name = f"{behavior.lower()}{'-invert' if invert else ''}"
            steps[f"empty-{name}"] = split(r"x*|(?=e)", behavior, invert)
            steps[f"gpt2-{name}"] = split(GPT2, behavior, invert)
    for name, step in steps.items():
        t = byte_base()
        t["pre_tokenizer"] = sequence(step, byte_level(False, False))
        yield f"pre-{name}", t


def wordpiece_variants():
    normal = {"cased": {"lowercase": False}, "cased-stripped": {"lowercase": False, "strip_accents": True},
              "accents": {"strip_accents": False}, "unclean": {"clean_text": False},
              "han": {"handle_chinese_chars": False}}
    for name, options in normal.items():
        t = copy.deepcopy(WORDS)
        t["normalizer"].update(options)
        yield f"wordpiece-{name}", t
    t = copy.deepcopy(WORDS)
    t["decoder"]["cleanup"] = False
    t["model"]["max_input_chars_per_word"] = 4
    t["post_processor"] = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    yield "wordpiece-short", t
    t = copy.deepcopy(WORDS)
    t["model"]["continuing_subword_prefix"] = t["decoder"]["prefix"] = "e"
    t["pre_tokenizer"] = {"type": "WhitespaceSplit"}
    t["post_processor"] = None
    yield "wordpiece-prefix", t


def unigram_variants():
    t = copy.deepcopy(UNIGRAM)
    t["normalizer"] = None
    t["pre_tokenizer"] = t["decoder"]
    t["post_processor"] = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0],
                           "trim_offsets": True, "add_prefix_space": False}
    yield "unigram-whole", t
    t = copy.deepcopy(UNIGRAM)
    del t["added_tokens"][4:]
    t["model"]["byte_fallback"] = True
    t["model"]["vocab"] += [[f"<0x{i:02X}>", -3.5 - i / 64] for i in range(256) if i != 0xF0]
    t["decoder"] = {"type": "Sequence", "decoders": [
        replace(MARK, " "), {"type": "ByteFallback"}, {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    yield "unigram-bytes", t


def pieces(tok, ids):
    stream = DecodeStream(skip_special_tokens=False)
    return [stream.step(tok, i) or "" for i in ids]


def record(tok, index, text):
    ids = tok.encode(text, add_special_tokens=False).ids
    full = tok.encode(text, add_special_tokens=True).ids
    before = tok.encode("", add_special_tokens=True).ids
    before = [i for i in before if tok.id_to_token(i) in HEADS]
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
        if name.startswith(("wordpiece", "unigram")):
            pairs = [(0, 0), (6, 9), (17, 22), (58, 0)]
            pairs = [(a, b, tok.encode(STRINGS[a], STRINGS[b])) for a, b in pairs]
            extra = {"pairs": [{"a": a, "b": b, "ids": e.ids, "type_ids": e.type_ids} for a, b, e in pairs]}
        else:
            extra = {}
        golden = {"file": f"small/{name}/tokenizer.json", "made_with": f"tokenizers {tokenizers.__version__}",
                  "cases": cases, **extra}
        (OUT / f"{name}.json").write_text(json.dumps(golden) + "\n")


main()
