#!/usr/bin/env python3
"""Makes tests/fixtures/gguf: files that the Python package gguf writes, and what is in them.

    python3 tools/make_gguf_goldens.py      (needs the Python packages gguf, numpy, torch,
                                             transformers, safetensors and llama-cpp-python; made
                                             with gguf 0.19 (types.gguf with that of
                                             llama.cpp in llama-cpp-python 0.3.36), torch 2.15
                                             and transformers 5.23)

types.gguf holds random blocks of each type, types.safetensors their elements as that package
decodes them. <family>/model.gguf is a tiny random model with the names, the order of rows and the
norms of llama.cpp's files; <family>/golden.safetensors its logits, which transformers computes from
the decoded weights.
"""
import ctypes
import hashlib
import json
import pathlib

import gguf
import llama_cpp
import numpy as np
import torch
from gguf.quants import dequantize, quantize
from safetensors.numpy import save_file
from transformers import (AutoModelForCausalLM, Gemma2Config, Gemma3TextConfig, LlamaConfig,
                          Qwen2Config, Qwen3Config)

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures"
OUT = FIXTURES / "gguf"
Q = gguf.GGMLQuantizationType
TYPES = [Q.F32, Q.F16, Q.BF16, Q.Q4_0, Q.Q4_1, Q.Q5_0, Q.Q5_1, Q.Q8_0, Q.Q2_K, Q.Q3_K, Q.Q4_K,
         Q.Q5_K, Q.Q6_K, Q.MXFP4, Q.IQ4_NL, Q.IQ4_XS, Q.TQ1_0, Q.TQ2_0,
         Q.Q1_0, Q.Q2_0]
random = np.random.default_rng(37)


def random_blocks(kind, count):
    """Random bytes, but for the scales, which are numbers."""
    size, width = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (count, width), dtype=np.uint8)
    half = lambda: random.normal(0, 0.1, count).astype(np.float16).view(np.uint8).reshape(count, 2)
    places = {Q.Q4_0: [0], Q.Q4_1: [0, 2], Q.Q5_0: [0], Q.Q5_1: [0, 2], Q.Q8_0: [0],
              Q.Q2_K: [80, 82], Q.Q3_K: [108], Q.Q4_K: [0, 2], Q.Q5_K: [0, 2], Q.Q6_K: [208],
              Q.IQ4_NL: [0], Q.IQ4_XS: [0], Q.TQ1_0: [52], Q.TQ2_0: [64],
              Q.Q1_0: [0], Q.Q2_0: [0]}
    for at in places.get(kind, []):
        blocks[:, at:at + 2] = half()
    if kind == Q.MXFP4:
        blocks[:, 0] = random.integers(120, 130, count)
    return blocks


def elements_of(data, kind, columns):
    """By the package gguf, or, of types that it does not know, by ggml."""
    if kind not in (Q.Q1_0, Q.Q2_0):
        return dequantize(data, kind).astype(np.float32)
    ggml = ctypes.CDLL(next(pathlib.Path(llama_cpp.__file__).parent.glob("lib/libggml-base.so")))
    out = np.zeros((len(data), columns), np.float32)
    data = np.ascontiguousarray(data)
    getattr(ggml, f"dequantize_row_{kind.name.lower()}")(
        data.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_int64(out.size))
    return out


def make_types():
    writer = gguf.GGUFWriter(OUT / "types.gguf", "none")
    writer.add_uint8("a.u8", 200)
    writer.add_int16("a.i16", -200)
    writer.add_uint64("a.u64", 1 << 40)
    writer.add_float32("a.f32", 0.5)
    writer.add_float64("a.f64", -0.1)
    writer.add_bool("a.bool", True)
    writer.add_string("a.string", "text \u00e9")
    writer.add_array("a.strings", ["one", "", "three"])
    writer.add_array("a.integers", [1, -2, 3])
    writer.add_array("a.numbers", [0.5, -1.5])
    elements = {}
    for kind in TYPES:
        if kind in (Q.F32, Q.F16, Q.BF16):
            values = random.normal(0, 1, (2, 5)).astype(np.float32)
            data = (values.astype(np.float16) if kind == Q.F16 else values if kind == Q.F32
                    else quantize(values, kind))
            elements[kind.name] = dequantize(data, kind).astype(np.float32)
        else:
            size, width = gguf.GGML_QUANT_SIZES[kind]
            data = random_blocks(kind, 4).reshape(2, 2 * width)
            elements[kind.name] = elements_of(data, kind, 2 * size)
        writer.add_tensor(kind.name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    save_file(elements, OUT / "types.safetensors")


SIZES = dict(hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, max_position_embeddings=8192, rms_norm_eps=1e-6)
LLAMA3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 32.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
FAMILIES = {
    "llama": (LlamaConfig, "llama-small", Q.Q8_0,
              dict(rope_parameters=LLAMA3, tie_word_embeddings=False)),
    "qwen2": (Qwen2Config, "qwen-small", Q.Q4_1,
              dict(rope_parameters={"rope_type": "default", "rope_theta": 1e6},
                   tie_word_embeddings=True)),
    "qwen3": (Qwen3Config, "qwen-small", Q.Q5_1,
              dict(rope_parameters={"rope_type": "default", "rope_theta": 1e6},
                   tie_word_embeddings=True)),
    "gemma2": (Gemma2Config, "gemma-small", Q.Q5_0,
               dict(query_pre_attn_scalar=16, sliding_window=16)),
    "gemma3": (Gemma3TextConfig, "gemma-small", Q.Q4_0,
               dict(query_pre_attn_scalar=16, sliding_window=16, num_hidden_layers=6,
                    intermediate_size=32)),
}


def add_tokenizer(writer, name):
    """As llama.cpp's converter stores it. returns the number of tokens"""
    data = json.loads((FIXTURES / "tokenizers/small" / name / "tokenizer.json").read_text())
    vocab, added = data["model"]["vocab"], {t["id"]: t for t in data["added_tokens"]}
    tokens = {i: t for t, i in vocab.items()} | {i: t["content"] for i, t in added.items()}
    count = max(tokens) + 1
    merges = [m if isinstance(m, list) else m.split(" ") for m in data["model"]["merges"]]
    scored = data["model"]["byte_fallback"]
    rank = {}
    for i, (left, right) in enumerate(merges):
        rank.setdefault(left + right, i)
    types = []
    for i in range(count):
        token = tokens.get(i, f"[PAD{i}]")
        byte = scored and len(token) == 6 and token.startswith("<0x")
        types.append(3 if i in added and added[i]["special"] else 4 if i in added else
                     6 if byte else 5 if i not in tokens else 1)
    writer.add_tokenizer_model("llama" if scored else "gpt2")
    if not scored:
        writer.add_tokenizer_pre("llama-bpe" if name.startswith("llama") else "qwen2")
        writer.add_token_merges([" ".join(m) for m in merges])
    else:
        writer.add_token_scores([-float(rank.get(tokens.get(i), 100000)) for i in range(count)])
        writer.add_unk_token_id(vocab["<unk>"])
        writer.add_add_bos_token(True)
    writer.add_token_list([tokens.get(i, f"[PAD{i}]") for i in range(count)])
    writer.add_token_types(types)
    special = [i for i, t in added.items() if t["special"]]
    bos = vocab["<bos>"] if scored else special[0]
    eos = vocab["<eos>"] if scored else special[1]
    writer.add_bos_token_id(bos)
    writer.add_eos_token_id(eos)
    writer.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")
    return count


def rows_in_pairs(weight, heads):
    """The order in which llama.cpp has the rows of Llama's queries and keys."""
    return (weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
            .swapaxes(1, 2).reshape(weight.shape))


def add_sizes(writer, config, family):
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim if hasattr(config, "head_dim") else 16)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if family.startswith("gemma"):
        writer.add_sliding_window(config.sliding_window)
        writer.add_rope_freq_base(1e6 if family == "gemma3" else 1e4)
    else:
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    if family == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)


def llama3_factors(config):
    p, dim = config.rope_parameters, config.head_dim
    freqs = 1.0 / p["rope_theta"] ** (np.arange(0, dim, 2) / dim)
    wavelengths = 2 * np.pi / freqs
    low = p["original_max_position_embeddings"] / p["low_freq_factor"]
    high = p["original_max_position_embeddings"] / p["high_freq_factor"]
    smooth = (p["original_max_position_embeddings"] / wavelengths - p["low_freq_factor"]) / (
        p["high_freq_factor"] - p["low_freq_factor"])
    middle = 1 / ((1 - smooth) / p["factor"] + smooth)
    return np.where(wavelengths < high, 1, np.where(wavelengths > low, p["factor"],
                                                    middle)).astype(np.float32)


def make_model(family):
    config_class, tokenizer, kind, options = FAMILIES[family]
    folder = OUT / family
    folder.mkdir(exist_ok=True)
    writer = gguf.GGUFWriter(folder / "model.gguf", family)
    count = add_tokenizer(writer, tokenizer)
    config = config_class(**{**SIZES, "vocab_size": count, **options})
    torch.manual_seed(37)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").float()
    add_sizes(writer, config, family)
    names = gguf.get_tensor_name_map(
        {"llama": gguf.MODEL_ARCH.LLAMA, "qwen2": gguf.MODEL_ARCH.QWEN2,
         "qwen3": gguf.MODEL_ARCH.QWEN3, "gemma2": gguf.MODEL_ARCH.GEMMA2,
         "gemma3": gguf.MODEL_ARCH.GEMMA3}[family], config.num_hidden_layers)
    for name, parameter in model.named_parameters():
        value = torch.randn_like(parameter) * (0.3 if parameter.ndim > 1 else 0.1)
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        stored = value.numpy().copy()
        if family == "llama" and "q_proj" in name:
            stored = rows_in_pairs(stored, config.num_attention_heads)
        if family == "llama" and "k_proj" in name:
            stored = rows_in_pairs(stored, config.num_key_value_heads)
        target = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if stored.ndim == 1:
            # Gemma's norms add 1 to what transformers stores; llama.cpp stores the sum.
            writer.add_tensor(target, stored + 1 if family.startswith("gemma") else stored)
            parameter.data = value
            continue
        data = quantize(stored, kind)
        decoded = dequantize(data, kind).astype(np.float32)
        writer.add_tensor(target, data, raw_dtype=kind)
        if family == "llama" and ("q_proj" in name or "k_proj" in name):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            decoded = (decoded.reshape(heads, -1, 2, decoded.shape[1]).swapaxes(1, 2)
                       .reshape(decoded.shape))
        parameter.data = torch.from_numpy(decoded.copy())
    if family == "llama":
        writer.add_tensor("rope_freqs.weight", llama3_factors(config))
    model.tie_weights()
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    ids = random.integers(0, count, 37)
    with torch.no_grad():
        logits = model.eval()(torch.from_numpy(ids)[None]).logits[0].numpy()
    save_file({"ids": ids.astype(np.int32), "logits": logits[::6].astype(np.float32).copy()},
              folder / "golden.safetensors")


def update_manifest():
    path = FIXTURES / "MANIFEST.sha256"
    lines = [l for l in path.read_text().splitlines() if not l.split("  ")[1].startswith("gguf/")]
    for file in sorted(OUT.rglob("*")):
        if file.is_file():
            lines.append(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  "
                         f"{file.relative_to(FIXTURES)}")
    path.write_text("\n".join(sorted(lines, key=lambda line: line.split("  ")[1])) + "\n")


def main():
    OUT.mkdir(exist_ok=True)
    make_types()
    for family in FAMILIES:
        make_model(family)
    update_manifest()


if __name__ == "__main__":
    main()
