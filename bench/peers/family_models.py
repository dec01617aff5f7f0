#!/usr/bin/env python3
"""Writes a model folder of one of the newer families, in its real widths, with random weights.

    family_models.py SHAPE OUT_DIR

SHAPE is a key of SHAPES below. Experts, mixers and embeddings are quantised as published MLX
folders of the family are (4 bits, or mxfp4 and 8 bits), with affine biases of -2^(bits - 1) scales,
so that GGUF's Q4_0 and Q8_0 hold the same numbers: `mica convert OUT_DIR x.gguf` keeps them.
Encoders are float32 and have the files of sentence-transformers. The tokenizers are toys: of bytes,
or a word a token. Answers are noise. Needs numpy.
"""
import argparse
import json
import math
import struct
from pathlib import Path

import numpy as np

RNG = np.random.default_rng(7)
POOL = RNG.bytes(1 << 24)  # random codes; longer tensors repeat it
SPREAD = {4: 4.61, 8: 73.9}  # the deviation of uniform codes, in scales
BYTES = {"U32": 4, "F32": 4, "BF16": 2, "U8": 1}


def bf16(x):
    return (np.asarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def to_dtype(x, dtype):
    return (bf16(x) if dtype == "BF16" else np.asarray(x, np.float32)).tobytes()


class Folder:
    """Tensors by name: dtype, shape, and what makes the bytes."""

    def __init__(self, dtype="BF16"):
        self.tensors, self.quants, self.dtype = {}, {}, dtype

    def add(self, name, dtype, shape, make):
        self.tensors[name] = (dtype, list(shape), make)

    def constant(self, name, shape, value, dtype=None):
        dtype = dtype or self.dtype
        self.add(name, dtype, shape, lambda n: to_dtype(np.full(n, value), dtype))

    def numbers(self, name, *shape):
        """Uniform numbers of variance 1 / inputs."""
        most = math.sqrt(3 / shape[-1])
        self.add(name, self.dtype, shape,
                 lambda n: to_dtype(RNG.uniform(-most, most, n), self.dtype))

    def codes(self, name, bits, shape):
        self.add(name + ".weight", "U32", (*shape[:-1], shape[-1] * bits // 32),
                 lambda n: (POOL * (n * 4 // len(POOL) + 1))[:n * 4])

    def affine(self, name, bits, *shape):
        scale, groups = 1 / math.sqrt(shape[-1]) / SPREAD[bits], (*shape[:-1], shape[-1] // 64)
        self.codes(name, bits, shape)
        scale = float((bf16([scale]).astype(np.uint32) << 16).view(np.float32)[0])
        self.constant(name + ".scales", groups, scale)
        self.constant(name + ".biases", groups, -scale * (1 << bits - 1))
        self.quants[name] = {"group_size": 64, "bits": bits, "mode": "affine"}

    def mxfp4(self, name, *shape):
        exponent = 127 + round(math.log2(1 / math.sqrt(shape[-1]) / 2.93))
        self.codes(name, 4, shape)
        self.add(name + ".scales", "U8", (*shape[:-1], shape[-1] // 32),
                 lambda n: bytes([exponent]) * n)

    def write(self, out):
        header, at = {"__metadata__": {"format": "mlx" if self.quants else "pt"}}, 0
        for name, (dtype, shape, _) in self.tensors.items():
            size = math.prod(shape) * BYTES[dtype]
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(out / "model.safetensors", "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text)
            for dtype, shape, make in self.tensors.values():
                file.write(make(math.prod(shape)))
        print(f"{at / 1e6:.0f} MB of weights")


def attention(f, p, c, bits, gated=False, bias=False, out="o_proj", norms=None):
    h, d = c["hidden_size"], c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    q, kv = c["num_attention_heads"] * d, c["num_key_value_heads"] * d
    sizes = {"q_proj": (q * (2 if gated else 1), h), "k_proj": (kv, h), "v_proj": (kv, h),
             out: (h, q)}
    for name, size in sizes.items():
        f.affine(p + name, bits, *size)
        if bias:
            f.constant(p + name + ".bias", size[:1], 0.01)
    for norm in norms or ():
        f.constant(f"{p}{norm}.weight", (d,), 1)


def mlp(f, p, hidden, wide, names=("gate_proj", "up_proj", "down_proj")):
    for name in names[:2]:
        f.affine(p + name, 4, wide, hidden)
    f.affine(p + names[2], 4, hidden, wide)


def ends(f, c, bits, prefix="model.", norm="norm", head=False):
    """The embedding, the head if it is none, and the last norm."""
    for name in (prefix + "embed_tokens", "lm_head")[:2 if head else 1]:
        f.affine(name, bits, c["vocab_size"], c["hidden_size"])
    f.constant(f"{prefix}{norm}.weight", (c["hidden_size"],), 1)


def layers(f, c, prefix="model.", norms=("input_layernorm", "post_attention_layernorm")):
    """The prefix of each layer, whose norms are written."""
    for i in range(c["num_hidden_layers"]):
        p = f"{prefix}layers.{i}."
        for norm in norms:
            f.constant(f"{p}{norm}.weight", (c["hidden_size"],), 1)
        yield p


def qwen3_moe(f, c):
    h, e, m = c["hidden_size"], c["num_experts"], c["moe_intermediate_size"]
    ends(f, c, 4, head=True)
    for p in layers(f, c):
        attention(f, p + "self_attn.", c, 4, norms=("q_norm", "k_norm"))
        f.numbers(p + "mlp.gate.weight", e, h)
        for name, size in (("gate", (m, h)), ("up", (m, h)), ("down", (h, m))):
            f.affine(f"{p}mlp.switch_mlp.{name}_proj", 4, e, *size)


def gpt_oss(f, c):
    h, e, m = c["hidden_size"], c["num_local_experts"], c["intermediate_size"]
    ends(f, c, 8, head=True)
    for p in layers(f, c):
        attention(f, p + "self_attn.", c, 8, bias=True)
        f.constant(p + "self_attn.sinks", (c["num_attention_heads"],), 0)
        f.numbers(p + "mlp.router.weight", e, h)
        f.constant(p + "mlp.router.bias", (e,), 0)
        for name, size in (("gate", (m, h)), ("up", (m, h)), ("down", (h, m))):
            f.mxfp4(f"{p}mlp.experts.{name}_proj", e, *size)
            f.constant(f"{p}mlp.experts.{name}_proj.bias", (e, size[0]), 0.01)


def delta_net(f, p, c):
    h, kd, vd = c["hidden_size"], c["linear_key_head_dim"], c["linear_value_head_dim"]
    k, v = c["linear_num_key_heads"] * kd, c["linear_num_value_heads"] * vd
    for name, size in (("in_proj_qkv", (2 * k + v, h)), ("in_proj_z", (v, h)),
                       ("out_proj", (h, v))):
        f.affine(p + name, 4, *size)
    for name in ("in_proj_a", "in_proj_b"):
        f.numbers(f"{p}{name}.weight", c["linear_num_value_heads"], h)
    f.add(p + "conv1d.weight", "BF16", (2 * k + v, c["linear_conv_kernel_dim"], 1),
          lambda n: to_dtype(RNG.uniform(-0.8, 0.8, n), "BF16"))
    f.constant(p + "A_log", (c["linear_num_value_heads"],), 0, "F32")
    f.constant(p + "dt_bias", (c["linear_num_value_heads"],), 0)
    f.constant(p + "norm.weight", (vd,), 1)


def qwen3_5(f, c):
    c = c["text_config"]
    h, prefix = c["hidden_size"], "language_model.model."
    ends(f, c, 4, prefix)
    for kind, p in zip(c["layer_types"], layers(f, c, prefix)):
        if kind == "linear_attention":
            delta_net(f, p + "linear_attn.", c)
        else:
            attention(f, p + "self_attn.", c, 4, gated=True, norms=("q_norm", "k_norm"))
        mlp(f, p + "mlp.", h, c["intermediate_size"])


def lfm2(f, c):
    h = c["hidden_size"]
    ends(f, c, 4, norm="embedding_norm")
    for i, p in enumerate(layers(f, c, norms=("operator_norm", "ffn_norm"))):
        if i in c["full_attn_idxs"]:
            attention(f, p + "self_attn.", c, 4, out="out_proj",
                      norms=("q_layernorm", "k_layernorm"))
        else:
            f.affine(p + "conv.in_proj", 4, 3 * h, h)
            f.affine(p + "conv.out_proj", 4, h, h)
            f.add(p + "conv.conv.weight", "BF16", (h, c["conv_L_cache"], 1),
                  lambda n: to_dtype(RNG.uniform(-1, 1, n), "BF16"))
        mlp(f, p + "feed_forward.", h, c["block_ff_dim"], ("w1", "w3", "w2"))


def dense(f, name, outputs, inputs):
    f.numbers(name + ".weight", outputs, inputs)
    f.constant(name + ".bias", (outputs,), 0.01)


def norm_with_bias(f, name, h):
    f.constant(name + ".weight", (h,), 1)
    f.constant(name + ".bias", (h,), 0)


def bert(f, c):
    h, m = c["hidden_size"], c["intermediate_size"]
    rows = {"word": c["vocab_size"], "position": c["max_position_embeddings"], "token_type": 2}
    for name, n in rows.items():
        f.numbers(f"embeddings.{name}_embeddings.weight", n, h)
    norm_with_bias(f, "embeddings.LayerNorm", h)
    for i in range(c["num_hidden_layers"]):
        p = f"encoder.layer.{i}."
        for name in ("query", "key", "value"):
            dense(f, f"{p}attention.self.{name}", h, h)
        dense(f, p + "attention.output.dense", h, h)
        norm_with_bias(f, p + "attention.output.LayerNorm", h)
        dense(f, p + "intermediate.dense", m, h)
        dense(f, p + "output.dense", h, m)
        norm_with_bias(f, p + "output.LayerNorm", h)
    dense(f, "pooler.dense", h, h)


def modernbert(f, c):
    h, m = c["hidden_size"], c["intermediate_size"]
    f.numbers("embeddings.tok_embeddings.weight", c["vocab_size"], h)
    f.constant("embeddings.norm.weight", (h,), 1)
    f.constant("final_norm.weight", (h,), 1)
    for i in range(c["num_hidden_layers"]):
        p = f"layers.{i}."
        if i:
            f.constant(p + "attn_norm.weight", (h,), 1)
        f.constant(p + "mlp_norm.weight", (h,), 1)
        for name, size in (("attn.Wqkv", (3 * h, h)), ("attn.Wo", (h, h)), ("mlp.Wi", (2 * m, h)),
                           ("mlp.Wo", (h, m))):
            f.numbers(f"{p}{name}.weight", *size)


QWEN_MOE = {
    "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 2048,
    "num_hidden_layers": 4, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
    "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128,
    "num_experts_per_tok": 8, "norm_topk_prob": True, "decoder_sparse_step": 1,
    "mlp_only_layers": [], "vocab_size": 151936, "tie_word_embeddings": False, "hidden_act": "silu",
    "rms_norm_eps": 1e-6, "rope_theta": 1e6, "max_position_embeddings": 40960,
    "attention_bias": False, "eos_token_id": 256}
GPT_OSS = {
    "model_type": "gpt_oss", "architectures": ["GptOssForCausalLM"], "hidden_size": 2880,
    "num_hidden_layers": 4, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64,
    "intermediate_size": 2880, "num_local_experts": 32, "num_experts_per_tok": 4,
    "experts_per_token": 4, "vocab_size": 201088, "tie_word_embeddings": False,
    "sliding_window": 128, "swiglu_limit": 7.0, "attention_bias": True, "rms_norm_eps": 1e-5,
    "rope_theta": 150000, "max_position_embeddings": 131072, "initial_context_length": 4096,
    "layer_types": ["sliding_attention", "full_attention"] * 2, "hidden_act": "silu",
    "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                     "original_max_position_embeddings": 4096, "truncate": False},
    "eos_token_id": 256}
HYBRID = {
    "model_type": "qwen3_5_text", "hidden_size": 2048, "num_hidden_layers": 8,
    "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "intermediate_size": 6144,
    "layer_types": (["linear_attention"] * 3 + ["full_attention"]) * 2,
    "full_attention_interval": 4, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128,
    "linear_value_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 16,
    "attn_output_gate": True, "attention_bias": False, "hidden_act": "silu", "rms_norm_eps": 1e-6,
    "vocab_size": 248320, "max_position_embeddings": 262144, "tie_word_embeddings": True,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e7, "partial_rotary_factor": 0.25,
                        "mrope_interleaved": True, "mrope_section": [11, 11, 10]},
    "eos_token_id": 256}
LFM2 = {
    "model_type": "lfm2", "architectures": ["Lfm2ForCausalLM"], "hidden_size": 2048,
    "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
    "full_attn_idxs": [2, 5, 8, 10, 12, 14], "block_ff_dim": 8192, "block_dim": 2048,
    "block_auto_adjust_ff_dim": False, "block_multiple_of": 256, "block_ffn_dim_multiplier": 1.0,
    "conv_L_cache": 3, "conv_bias": False, "conv_dim": 2048, "norm_eps": 1e-5, "rope_theta": 1e6,
    "vocab_size": 65536, "max_position_embeddings": 128000, "tie_word_embeddings": True,
    "eos_token_id": 256}
BERT = {
    "model_type": "bert", "architectures": ["BertModel"], "hidden_act": "gelu",
    "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2,
    "layer_norm_eps": 1e-12, "pad_token_id": 0, "position_embedding_type": "absolute"}
MODERNBERT = {
    "model_type": "modernbert", "architectures": ["ModernBertModel"], "hidden_size": 768,
    "num_hidden_layers": 22, "num_attention_heads": 12, "intermediate_size": 1152,
    "vocab_size": 50368, "hidden_activation": "gelu", "global_attn_every_n_layers": 3,
    "global_rope_theta": 160000.0, "local_rope_theta": 10000.0, "local_attention": 128,
    "max_position_embeddings": 8192, "norm_eps": 1e-5, "norm_bias": False, "attention_bias": False,
    "mlp_bias": False, "pad_token_id": 0, "cls_token_id": 2, "sep_token_id": 3,
    "bos_token_id": 2, "eos_token_id": 3, "classifier_pooling": "mean"}


def whole_hybrid(text):
    return {"model_type": "qwen3_5", "architectures": ["Qwen3_5ForConditionalGeneration"],
            "tie_word_embeddings": True, "text_config": text}


SHAPES = {
    "qwen3-30b-a3b": (qwen3_moe, QWEN_MOE),
    "gpt-oss-20b": (gpt_oss, GPT_OSS),
    "qwen3.5-2b": (qwen3_5, whole_hybrid(HYBRID)),
    "qwen3.5-2b-attention": (qwen3_5, whole_hybrid({**HYBRID, "layer_types": ["full_attention"] * 8,
                                                    "full_attention_interval": 1})),
    "lfm2-1.2b": (lfm2, LFM2),
    "minilm": (bert, {**BERT, "hidden_size": 384, "num_hidden_layers": 6,
                      "num_attention_heads": 12, "intermediate_size": 1536}),
    "bge-base": (bert, {**BERT, "hidden_size": 768, "num_hidden_layers": 12,
                        "num_attention_heads": 12, "intermediate_size": 3072}),
    "modernbert-base": (modernbert, MODERNBERT),
}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def special(i, content):
    return {"id": i, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True}


def byte_tokenizer():
    """A token for each byte, by the characters of byte-level tokenizers, and an end."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    chars = [chr(b) for b in kept] + [chr(256 + i) for i in range(256 - len(kept))]
    return {"version": "1.0", "added_tokens": [special(256, "<|endoftext|>")], "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                              "use_regex": True},
            "post_processor": None, "decoder": {"type": "ByteLevel"},
            "model": {"type": "BPE", "vocab": {c: i for i, c in enumerate(chars)}, "merges": []}}


def word_tokenizer(vocab):
    """The word "w12" is token 12, for all ids but those of special tokens."""
    words = SPECIAL + [f"w{i}" for i in range(len(SPECIAL), vocab)]
    ends = [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "[SEP]", "type_id": 0}}]
    pair = ends + [{"Sequence": {"id": "B", "type_id": 1}},
                   {"SpecialToken": {"id": "[SEP]", "type_id": 1}}]
    ids = {name: {"id": name, "ids": [i], "tokens": [name]}
           for name, i in (("[CLS]", 2), ("[SEP]", 3))}
    return {"version": "1.0", "added_tokens": [special(i, s) for i, s in enumerate(SPECIAL)],
            "normalizer": {"type": "BertNormalizer", "clean_text": True,
                           "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "post_processor": {"type": "TemplateProcessing", "single": ends, "pair": pair,
                               "special_tokens": ids},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": 100,
                      "vocab": {w: i for i, w in enumerate(words)}}}


def put(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1))


def write_encoder(out, c):
    put(out / "tokenizer.json", word_tokenizer(c["vocab_size"]))
    put(out / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 512,
         **{f"{t[1:-1].lower()}_token": t for t in SPECIAL},
         "model_input_names": ["input_ids", "attention_mask"]})
    kinds = (("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize"))
    put(out / "modules.json", [{"idx": i, "name": str(i), "path": path,
                                "type": f"sentence_transformers.models.{kind}"}
                               for i, (kind, path) in enumerate(kinds)])
    put(out / "sentence_bert_config.json", {"max_seq_length": 512, "do_lower_case": False})
    put(out / "1_Pooling/config.json", {"word_embedding_dimension": c["hidden_size"],
                                        "pooling_mode_mean_tokens": True})


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("out", type=Path)
    args = parser.parse_args()
    add, config = SHAPES[args.shape]
    encoder = add in (bert, modernbert)
    folder = Folder("F32" if encoder else "BF16")
    args.out.mkdir(parents=True)
    add(folder, config)
    folder.write(args.out)
    if encoder:
        put(args.out / "config.json", {**config, "torch_dtype": "float32"})
        return write_encoder(args.out, config)
    base = {"group_size": 32, "bits": 4, "mode": "mxfp4"} if add is gpt_oss else \
        {"group_size": 64, "bits": 4, "mode": "affine"}
    others = {k: v for k, v in folder.quants.items() if v != base}
    put(args.out / "config.json", {**config, "torch_dtype": "bfloat16",
                                   "quantization": {**base, **others}})
    put(args.out / "tokenizer.json", byte_tokenizer())
    put(args.out / "tokenizer_config.json",
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"})


main()
