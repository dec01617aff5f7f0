#!/usr/bin/env python3
"""Gives a model folder's numbers to other programs, exactly as they are.

    convert.py FOLDER --gguf FILE [--type Q4_0]    as GGUF
    convert.py FOLDER --plain OUT                  as a folder of bfloat16 weights, to export from

FOLDER holds gemma3, llama or qwen3 in MLX's layout, such as bench/random_model writes. The type in
GGUF follows from FOLDER: 4 bit becomes Q4_1 (or, asked for, Q4_0), 8 bit Q8_0, mxfp4 MXFP4,
bfloat16 BF16. What a type cannot say exactly is an error, never a rounding: Q4_0 and Q8_0 have no
biases, and all have float16 scales. Only the plain folder rounds, each weight to bfloat16.

Needs numpy and, for GGUF, the package gguf.
"""
import argparse
import json
import math
import shutil
import struct
import sys
from pathlib import Path

import numpy as np

NUMPY = {"U32": np.uint32, "U8": np.uint8, "BF16": np.uint16, "F32": np.float32}
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
E2M1 = np.concatenate([E2M1, -E2M1])

# A layer's tensors, here and in GGUF. What post_attention_layernorm is depends on the family.
LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
WHOLE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
ARCH = {"gemma3_text": "gemma3", "llama": "llama", "qwen3": "qwen3"}


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def to_bf16(x):
    """Rounded to the nearest, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def exact_f16(x):
    half = x.astype(np.float16)
    if not np.array_equal(half.astype(np.float32), x):
        sys.exit("convert: a scale is not exact in float16")
    return half


class Matrix:
    """A quantised matrix: codes [out, in] of one byte, scales (and biases) [out, in / group]."""

    def __init__(self, folder, name):
        quant = folder.config["quantization"]
        self.mode, self.bits, self.group = quant.get("mode", "affine"), quant["bits"], quant["group_size"]
        packed = folder.raw(name + ".weight").view(np.uint8)
        self.codes = packed if self.bits == 8 else np.stack([packed & 15, packed >> 4], -1).reshape(len(packed), -1)
        scales = folder.raw(name + ".scales")
        if self.mode == "mxfp4":
            self.exponents = scales
        else:
            self.scales = from_bf16(scales)
            self.biases = from_bf16(folder.raw(name + ".biases"))

    def floats(self):
        """-> float32 [out, in]"""
        shape = self.codes.shape
        if self.mode == "mxfp4":
            x = E2M1[self.codes].reshape(shape[0], -1, self.group)
            return np.ldexp(x, self.exponents.astype(np.int32)[..., None] - 127).reshape(shape)
        x = self.codes.astype(np.float32).reshape(shape[0], -1, self.group)
        return (x * self.scales[..., None] + self.biases[..., None]).reshape(shape)

    def halves(self):
        """Blocks of 32 as GGUF has them: byte i is code i and, in its high bits, code i + 16."""
        blocks = self.codes.reshape(len(self.codes), -1, 2, 16)
        return blocks[:, :, 0] | blocks[:, :, 1] << 4

    def of_blocks(self, values):
        """A number a group -> [out, in / 32, 2] bytes, a float16 a block of 32."""
        return np.repeat(exact_f16(values), self.group // 32, 1)[..., None].view(np.uint8)

    def without_biases(self):
        if not np.array_equal(self.biases, self.scales * -(1 << (self.bits - 1))):
            sys.exit("convert: the biases are not what a type without them implies")

    def q4_0(self):
        self.without_biases()
        return self.of_blocks(self.scales), self.halves()

    def q4_1(self):
        return self.of_blocks(self.scales), self.of_blocks(self.biases), self.halves()

    def q8_0(self):
        self.without_biases()
        return self.of_blocks(self.scales), (self.codes ^ 0x80).reshape(len(self.codes), -1, 32)

    def mxfp4(self):
        return self.exponents[..., None], self.halves()


TYPES = {  # (mode, bits): what FOLDER's matrices may become, the first where nothing is said
    ("affine", 4): {"Q4_1": Matrix.q4_1, "Q4_0": Matrix.q4_0},
    ("affine", 8): {"Q8_0": Matrix.q8_0},
    ("mxfp4", 4): {"MXFP4": Matrix.mxfp4},
    (None, 0): {"BF16": None},
}


class Folder:
    def __init__(self, path):
        self.path = Path(path)
        self.config = json.loads((self.path / "config.json").read_text())
        self.quantised = "quantization" in self.config
        self.tensors = {}
        for shard in sorted(self.path.glob("*.safetensors")):
            with open(shard, "rb") as f:
                size = struct.unpack("<Q", f.read(8))[0]
                header = json.loads(f.read(size))
            for name, t in header.items():
                if name != "__metadata__":
                    self.tensors[name] = (shard, 8 + size + t["data_offsets"][0], NUMPY[t["dtype"]], t["shape"])

    def raw(self, name):
        shard, offset, dtype, shape = self.tensors[name]
        return np.memmap(shard, dtype, "r", offset, tuple(shape))

    def names(self):
        """What has a .weight, in the order of the files."""
        return [n.removesuffix(".weight") for n in self.tensors if n.endswith(".weight")]

    def is_matrix(self, name):
        return len(self.tensors[name + ".weight"][3]) == 2

    def floats(self, name):
        if self.quantised and name + ".scales" in self.tensors:
            return Matrix(self, name).floats()
        return from_bf16(self.raw(name + ".weight"))


def write_plain(folder, out):
    out.mkdir(parents=True, exist_ok=True)
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name in folder.names():
        _, _, dtype, shape = folder.tensors[name + ".weight"]
        if dtype == np.uint32:
            shape = [shape[0], shape[1] * 32 // folder.config["quantization"]["bits"]]
        end = offset + 2 * math.prod(shape)
        header[name + ".weight"] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(out / "model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name in folder.names():
            f.write(to_bf16(folder.floats(name)).tobytes())
    config = {k: v for k, v in folder.config.items() if not k.startswith("quantization")}
    (out / "config.json").write_text(json.dumps(config, indent=1))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(folder.path / name, out)


def gguf_name(arch, name):
    if name in WHOLE:
        return WHOLE[name] + ".weight"
    _, _, layer, rest = name.split(".", 3)
    if rest == "post_attention_layernorm":
        rest = "post_attention_norm" if arch == "gemma3" else "ffn_norm"
    return f"blk.{layer}.{LAYER.get(rest, rest)}.weight"


def rope_order(rows, heads):
    """GGUF's llama rotates neighbours, where the folder rotates halves of a head."""
    return np.arange(rows).reshape(heads, 2, -1).swapaxes(1, 2).reshape(-1)


def rope_factors(config):
    """What llama3's rope_scaling divides the frequencies by, a number a pair."""
    s, dim = config["rope_scaling"], config["head_dim"]
    wave = 2 * math.pi * config["rope_theta"] ** (np.arange(0, dim, 2) / dim)
    low, high, old = s["low_freq_factor"], s["high_freq_factor"], s["original_max_position_embeddings"]
    between = (old / wave - low) / (high - low)
    middle = 1 / ((1 - between) / s["factor"] + between)
    factors = np.where(wave < old / high, 1, np.where(wave > old / low, s["factor"], middle))
    return factors.astype(np.float32)


def add_tokenizer(writer, folder, arch):
    from gguf import TokenType

    tok = json.loads((folder.path / "tokenizer.json").read_text(encoding="utf-8"))
    size = folder.config["vocab_size"]
    tokens, types = [f"[unused{i}]" for i in range(size)], [TokenType.UNUSED] * size
    known = {i: (text, TokenType.NORMAL) for text, i in tok["model"]["vocab"].items()}
    for t in tok["added_tokens"]:
        known[t["id"]] = (t["content"], TokenType.CONTROL if t["special"] else TokenType.USER_DEFINED)
    for i, (text, kind) in known.items():
        if i < size:
            tokens[i], types[i] = text, kind
    spm = arch == "gemma3"
    if spm:
        for byte in range(256):
            if (i := tok["model"]["vocab"].get(f"<0x{byte:02X}>")) is not None:
                types[i] = TokenType.BYTE
        writer.add_token_scores([-float(i) for i in range(size)])
        writer.add_add_space_prefix(False)
    else:
        writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in tok["model"]["merges"]])
    writer.add_tokenizer_model("llama" if spm else "gpt2")
    writer.add_tokenizer_pre({"gemma3": "default", "llama": "llama-bpe", "qwen3": "qwen2"}[arch])
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_bos_token_id(folder.config["bos_token_id"])
    writer.add_eos_token_id(np.ravel(folder.config["eos_token_id"])[0].item())
    writer.add_add_bos_token(arch != "qwen3")


def add_sizes(writer, config, arch, kind):
    from gguf import LlamaFileType

    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_freq_base(config["rope_theta"])
    writer.add_vocab_size(config["vocab_size"])
    writer.add_file_type({"MXFP4": 38}.get(kind) or LlamaFileType[f"MOSTLY_{kind}"])
    writer.add_quantization_version(2)
    if arch == "gemma3":
        writer.add_sliding_window(config["sliding_window"])
    if arch == "llama":
        writer.add_rope_dimension_count(config["head_dim"])
        if config.get("rope_scaling"):
            writer.add_tensor("rope_freqs.weight", rope_factors(config))


def gguf_bytes(folder, name, convert, order):
    """-> uint8 [out, bytes of a row]"""
    if convert is None:
        rows = np.ascontiguousarray(folder.raw(name + ".weight")).view(np.uint8)
    else:
        parts = convert(Matrix(folder, name))
        rows = np.concatenate(parts, -1).reshape(len(parts[0]), -1)
    return rows if order is None else rows[order]


def write_gguf(folder, file, kind):
    import gguf

    config, arch = folder.config, ARCH[folder.config["model_type"]]
    quant = config.get("quantization", {"mode": None, "bits": 0})
    types = TYPES[quant.get("mode", "affine"), quant["bits"]]
    kind = kind or next(iter(types))
    if kind not in types:
        sys.exit(f"convert: {folder.path} may become {', '.join(types)}, not {kind}")
    file.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(file, arch, use_temp_file=True)
    add_sizes(writer, config, arch, kind)
    add_tokenizer(writer, folder, arch)
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    for name in folder.names():
        if not folder.is_matrix(name):
            norm = folder.floats(name) + (1 if arch == "gemma3" else 0)
            writer.add_tensor(gguf_name(arch, name), norm.astype(np.float32))
            continue
        turned = heads.get(name.split(".")[-1]) if arch == "llama" else None
        order = rope_order(folder.tensors[name + ".weight"][3][0], turned) if turned else None
        writer.add_tensor(gguf_name(arch, name), gguf_bytes(folder, name, types[kind], order),
                          raw_dtype=gguf.GGMLQuantizationType[kind])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--gguf", type=Path, metavar="FILE")
    parser.add_argument("--type")
    parser.add_argument("--plain", type=Path, metavar="OUT")
    args = parser.parse_args()
    folder = Folder(args.folder)
    if args.gguf:
        write_gguf(folder, args.gguf, args.type)
    if args.plain:
        write_plain(folder, args.plain)


if __name__ == "__main__":
    main()
