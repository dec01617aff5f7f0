#!/usr/bin/env python3
"""Loads the GGUF files that the command writes with llama.cpp, and compares the logits.

    python3 tools/check_gguf.py [MICA [FILES...]]    (needs the Python packages llama-cpp-python,
                                                      numpy and safetensors; MICA is build/mica)

Every model of tests/fixtures/models and families that GGUF can describe is written twice: as it is,
and dequantised in f32. Of the second files llama.cpp computes the goldens of transformers (of
Gemma's to three digits: its table of GELU has f16), and the same 24 greedy tokens. Of the first
ones it differs by its own arithmetic, which rounds activations to 8 bits beside quantised weights,
to f16 or bf16 beside such ones. FILES are folders of more: of models with goldens
(tools/make_gguf_variants.py), or of GGUF files that are named after cases of families
(tools/make_gguf_family_goldens.py), which are read and written again first. llama.cpp runs as
another process, for it aborts where a model is not as it wants it. The default model's texts are
tokenised and continued as mica does. Real tokenizers that tools/fetch_tokenizers has downloaded are
written with a tiny model each, and give the ids that mica gives; llama.cpp does not normalise, and
takes Qwen's "</s>" for a special token, so Qwen's are tried on other texts, in NFC.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unicodedata

import numpy as np
from llama_cpp import Llama
from safetensors.numpy import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests/fixtures"
MICA = sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/mica"
TEXTS = ["Once upon a time", "The little dog  saw\n\n a b\u00f6rd 123!",
         "<end_of_turn>x \u4e16\u754c"]
failed = False


def report(what, value, limit):
    global failed
    failed |= not value <= limit
    print(f"{'ok  ' if value <= limit else 'FAIL'} {what}: {value:.2g}, limit {limit}")


def convert(source, target, dense):
    verb = ["quantize", "--dequantize", "--dtype", "float32"] if dense else ["convert"]
    done = subprocess.run([MICA, *verb, str(source), str(target), "--quiet"], capture_output=True,
                          text=True)
    return done.returncode == 0, (done.stdout + done.stderr).strip()


def mica(*words):
    return subprocess.run([MICA, *words], capture_output=True, text=True).stdout.strip()


def logits_of(model, ids):
    model.reset()
    model.eval([int(i) for i in ids])
    return np.array(model.scores[:len(ids)])


def greedy_of(model, count, vocab):
    """The likeliest tokens after what the model has read."""
    ids = []
    for _ in range(count):
        ids.append(int(np.argmax(model.scores[model.n_tokens - 1, :vocab])))
        model.eval(ids[-1:])
    return ids


def compare(path, golden):
    """In a process of its own: prints how far llama.cpp's logits are from the goldens, and after
    how many prompts its greedy tokens are others."""
    golden = load_file(golden)
    model = Llama(str(path), n_ctx=128, logits_all=True, verbose=False, flash_attn=False,
                  type_k=0, type_v=0)
    worst, differing, count, other = 0, 0, 0, 0
    for i in range(4):
        ids, want = golden[f"prompt{i}.ids"], golden[f"prompt{i}.logits"]
        got = logits_of(model, ids)[:, :want.shape[1]]
        worst = max(worst, np.sqrt(np.mean((got - want) ** 2)) / want.std())
        differing += (got.argmax(1) != want.argmax(1)).sum()
        count += len(ids)
        greedy = golden[f"prompt{i}.greedy"]
        other += greedy_of(model, len(greedy), want.shape[1]) != greedy.tolist()
    print(worst, differing, count, other)


# Gemma's GELU is a table of f16; GLM's latents have the epsilon of other norms.
LIMITS = [("gemma4", 5e-3), ("gemma", 1e-3), ("glm4", 1e-4)]

# What llama.cpp does not compute as transformers does, or at all.
OTHERWISE = {"gpt_oss": "llama.cpp rounds yarn's bounds, whatever truncate says",
             "qwen3_5_hf": "llama.cpp wants heads of values as wide as those of keys",
             "qwen3_5_moe_hf": "llama.cpp wants heads of values as wide as those of keys",
             "gemma3n_hf": "llama.cpp wants four streams, layer inputs of 256 and a rank of 64",
             "gemma4_e_q4": "llama.cpp wants a window in the last but one layer with keys",
             "granite_swa_hf-again": "llama.cpp's converter leaves layer_rope_theta out"}


def check_file(name, path, golden, dense):
    done = subprocess.run([sys.executable, __file__, "--compare", str(path), str(golden)],
                          capture_output=True, text=True)
    why = next((text for case, text in OTHERWISE.items() if name.startswith(case)), None)
    if why:
        far = done.stdout.split()[0][:7] if done.returncode == 0 else "not loaded"
        print(f"     {name}: {far}: {why}")
        return
    if done.returncode != 0:
        report(f"{name}: loads", 1, 0)
        return
    worst, differing, count, other = (float(word) for word in done.stdout.split())
    limit = next((x for family, x in LIMITS if family in name), 1e-5) if dense else 0.2
    report(f"{name}: rms of the difference, of the logits' own", worst, limit)
    report(f"{name}: {count:.0f} likeliest next tokens, of which differ", differing,
           0.01 * count if dense else 0.15 * count)
    if dense:
        report(f"{name}: greedy answers to 4 prompts, of which differ", other, 0)


def check_fixture(folder, temp, dense):
    path = temp / f"{folder.name}-{dense}.gguf"
    done, text = convert(folder, path, dense)
    if not done:
        print(f"     {folder.name}: {text}")
        return
    check_file(f"{folder.name}, {'f32' if dense else 'as it is'}", path,
               folder / "golden.safetensors", dense)


def check_other(file, temp):
    """A GGUF file of another program, read and written again."""
    folder, path = temp / f"{file.stem}-back", temp / f"{file.stem}-again.gguf"
    for source, target, dense in ((file, folder, False), (folder, path, True)):
        done, text = convert(source, target, dense)
        if not done:
            print(f"FAIL {file.name}: {text}")
            return
    check_file(f"{file.stem}-again", path,
               FIXTURES / "families" / file.stem / "golden.safetensors", True)


def check_again(folder, temp):
    """A GGUF file of another program, to a folder and back."""
    made, path = temp / folder.name, temp / f"{folder.name}-again.gguf"
    convert(folder / "model.gguf", made, False)
    print("    ", convert(made, path, True)[1])
    golden = load_file(folder / "golden.safetensors")
    model = Llama(str(path), n_ctx=128, logits_all=True, verbose=False, flash_attn=False,
                  type_k=0, type_v=0)
    got, want = logits_of(model, golden["ids"])[::6], golden["logits"]
    report(f"{folder.name} of GGUF, f32: rms of the difference, of the logits' own",
           np.sqrt(np.mean((got - want) ** 2)) / want.std(),
           1e-3 if "gemma" in folder.name else 1e-5)


def check_default(temp):
    folder = str(ROOT / "models/default")
    for dense in (False, True):
        path = temp / f"default-{dense}.gguf"
        print("    ", convert(folder, path, dense)[1])
        model = Llama(str(path), n_ctx=256, verbose=False, flash_attn=False, type_k=0, type_v=0)
        for text in TEXTS:
            ids = list(model.tokenize(text.encode(), add_bos=True, special=True))
            want = [int(word) for word in mica("tokenize", "--ids", "-m", folder, text).split()]
            report(f"tokens of {text!r}: differ", int(ids != want), 0)
            got = model.create_completion(ids, max_tokens=24, temperature=0)["choices"][0]["text"]
            want = mica("generate", "-q", "-m", folder, "-n", "24", "-T", "0", "--arithmetic",
                        "exact", text)
            if dense:
                report(f"greedy {want[:40]!r}: differs", int(got.strip() != want), 0)


# Family, model_type, first and last token of real tokenizers.
REAL = {"llama3": ("llama", "llama", "<|begin_of_text|>", "<|end_of_text|>"),
        "llama3_1": ("llama", "llama", "<|begin_of_text|>", "<|end_of_text|>"),
        "llama3_2": ("llama", "llama", "<|begin_of_text|>", "<|end_of_text|>"),
        "qwen2_5": ("qwen2", "qwen2", None, "<|im_end|>"),
        "qwen3": ("qwen3", "qwen3", None, "<|im_end|>"),
        "gemma2": ("gemma2", "gemma2", "<bos>", "<eos>"),
        "gemma3": ("gemma3", "gemma3_text", "<bos>", "<eos>")}
WIDTH = 32


def make_tiny(folder, name, tokenizer):
    """A model of one layer whose embedding has a row for each token."""
    family, kind, bos, eos = REAL[name]
    data = json.loads((tokenizer / "tokenizer.json").read_text())
    count = 1 + max(*data["model"]["vocab"].values(), *(t["id"] for t in data["added_tokens"]))
    gemma = family.startswith("gemma")
    folder.mkdir()
    os.symlink(tokenizer / "tokenizer.json", folder / "tokenizer.json")
    config = {"model_type": kind, "hidden_size": WIDTH, "intermediate_size": WIDTH,
              "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
              "head_dim": 16, "vocab_size": count, "tie_word_embeddings": True,
              "max_position_embeddings": 512, "query_pre_attn_scalar": 16,
              "hidden_activation" if gemma else "hidden_act":
              "gelu_pytorch_tanh" if gemma else "silu"}
    (folder / "config.json").write_text(json.dumps(config))
    tokens = {"eos_token": eos} | ({"bos_token": bos} if bos else {})
    (folder / "tokenizer_config.json").write_text(json.dumps(tokens))
    zeros = lambda *shape: np.zeros(shape, np.float16)
    layer, norms = "model.layers.0.", ["input_layernorm", "post_attention_layernorm"]
    arrays = {"model.embed_tokens.weight": zeros(count, WIDTH), "model.norm.weight": zeros(WIDTH)}
    for part in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                 "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"):
        arrays[f"{layer}{part}.weight"] = zeros(WIDTH, WIDTH)
        if family == "qwen2" and part[10:] in ("q_proj", "k_proj", "v_proj"):
            arrays[f"{layer}{part}.bias"] = zeros(WIDTH)
    if gemma:
        norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"]
    for part in norms:
        arrays[f"{layer}{part}.weight"] = zeros(WIDTH)
    if family in ("qwen3", "gemma3"):
        for part in ("q_norm", "k_norm"):
            arrays[f"{layer}self_attn.{part}.weight"] = zeros(16)
    save_file(arrays, folder / "model.safetensors")


def check_tokenizer(temp, name, tokenizer):
    folder, path = temp / f"real-{name}", temp / f"real-{name}.gguf"
    make_tiny(folder, name, tokenizer)
    print("    ", convert(folder, path, False)[1])
    model = Llama(str(path), vocab_only=True, verbose=False)
    strings = json.loads((FIXTURES / "tokenizers/strings.json").read_text())["strings"]
    differing = count = 0
    for text in strings[::3]:
        odd = unicodedata.normalize("NFC", text) != text or "</s>" in text
        if "\0" in text or len(text) > 20000 or ("qwen" in name and odd):
            continue
        done = subprocess.run([MICA, "tokenize", "--ids", "-m", str(folder), "-"],
                              input="\ufeff" + text + "\n",  # the command drops one mark of UTF-8
                              capture_output=True, text=True)
        ids = list(model.tokenize(text.encode(), add_bos=True, special=True))
        differing += ids != [int(word) for word in done.stdout.split()]
        count += 1
    report(f"{name}'s tokenizer: {count} texts, of which differ", differing, 0)


def check_tokenizers(temp):
    cache = pathlib.Path(os.environ.get("MICA_TEST_CACHE",
                                        pathlib.Path.home() / ".cache/mica-tests"))
    for name in REAL:
        golden = (FIXTURES / "tokenizers" / f"{name}.json").read_text()
        for folder in cache.iterdir() if cache.exists() else ():
            if folder.name in golden:
                check_tokenizer(temp, name, folder)


def list_cases():
    for root in (FIXTURES / "models", FIXTURES / "families", *map(pathlib.Path, sys.argv[2:])):
        yield from sorted(root.iterdir())


def main():
    if sys.argv[1:2] == ["--compare"]:
        compare(*sys.argv[2:])
        return
    with tempfile.TemporaryDirectory() as temp:
        temp = pathlib.Path(temp)
        for case in list_cases():
            if case.suffix == ".gguf":
                check_other(case, temp)
            else:
                check_fixture(case, temp, False)
                check_fixture(case, temp, True)
        for folder in sorted(path for path in (FIXTURES / "gguf").iterdir() if path.is_dir()):
            check_again(folder, temp)
        check_default(temp)
        check_tokenizers(temp)
    sys.exit(failed)


if __name__ == "__main__":
    main()
