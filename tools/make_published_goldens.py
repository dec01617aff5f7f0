#!/usr/bin/env python3
"""Makes tests/fixtures/published: tiny models as programs other than MLX quantise them.

    python3 tools/make_published_goldens.py [--check AUTO_AWQ AUTO_GPTQ [CASE...]]

Needs torch, transformers, safetensors, numpy and compressed-tensors; made with torch 2.15.0,
transformers 5.24.0 and compressed-tensors 0.20.1. --check also compares AWQ and GPTQ with the
sources of AutoAWQ and AutoGPTQ, in these folders.

Each matrix is quantised by its format's definition, written out here in numpy; what it stands for
is compared with what the format's own program makes of the same tensors. Logits are transformers'
in float32, on these numbers. Where mica has no layout that holds them exactly, the tolerance is
1.8 times what 8 bits in groups of 64 change.
"""
import hashlib
import importlib.util
import json
import pathlib
import shutil
import sys

import numpy as np
import torch
import transformers
from compressed_tensors.compressors import (MXFP4PackedCompressor, MXFP8QuantizationCompressor,
                                            NVFP4PackedCompressor, NaiveQuantizationCompressor,
                                            PackedQuantizationCompressor)
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from safetensors.torch import save_file
from transformers.integrations.finegrained_fp8 import _dequantize_fp8_weight

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests" / "fixtures"
F8 = torch.float8_e4m3fn
E2M1 = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float32)
VOCAB, HIDDEN, WIDTH = 104, 32, 96
LENGTHS = (1, 5, 7, 11)
SIZES = dict(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=WIDTH, num_hidden_layers=1,
             num_attention_heads=4, num_key_value_heads=2, head_dim=16, rope_theta=10000.0,
             max_position_embeddings=512, tie_word_embeddings=True, rms_norm_eps=1e-6)


# ---- formats: matrix -> (tensors by ending, what they stand for) ----

def blocks(x, rows, columns):
    """The largest number of each block, spread over its elements; and the blocks' own."""
    high, wide = -(-x.shape[0] // rows), -(-x.shape[1] // columns)
    most = torch.stack([torch.stack([x[i * rows:(i + 1) * rows, j * columns:(j + 1) * columns]
                                     .abs().max() for j in range(wide)]) for i in range(high)])
    return most


def spread(scales, x, rows, columns):
    return scales.repeat_interleave(rows, 0).repeat_interleave(columns, 1)[:x.shape[0], :x.shape[1]]


def fp8_block(w, powers=False, inverse="weight_scale_inv"):
    scales = blocks(w, 128, 128) / 448
    if powers:
        scales = 2 ** torch.ceil(torch.log2(scales))
    codes = (w / spread(scales, w, 128, 128)).to(F8)
    values = codes.float() * spread(scales, w, 128, 128)
    same(values, _dequantize_fp8_weight(codes, scales, [128, 128], torch.float32))
    return {"weight": codes, inverse: scales}, values


def fp8_tensor(w):
    scale = (w.abs().max() / 448).bfloat16()
    codes = (w / scale.float()).to(F8)
    values = codes.float() * scale.float()
    same(values, _dequantize_fp8_weight(codes, scale, None, torch.float32))
    return {"weight": codes, "weight_scale_inv": scale,
            "activation_scale": torch.tensor(0.03).bfloat16()}, values


def fp8_modelopt(w):
    scale = w.abs().max() / 448
    codes = (w / scale).to(F8)
    return {"weight": codes, "weight_scale": scale, "input_scale": torch.tensor(0.01)}, \
        codes.float() * scale


def scheme(**args):
    return QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**args))


def by_program(compressor, tensors, args):
    given = {k: v for k, v in tensors.items() if "input" not in k}
    return compressor.decompress(given, args)["weight"].float()


def fp8_rows(w):
    scales = (w.abs().amax(1, keepdim=True) / 448).bfloat16()
    codes = (w / scales.float()).to(F8)
    tensors = {"weight": codes, "weight_scale": scales.float()}
    values = codes.float() * scales.float()
    same(values, by_program(NaiveQuantizationCompressor, tensors,
                            scheme(num_bits=8, type="float", strategy="channel")))
    tensors["weight_scale"] = scales
    return tensors, values


def grouped(w, size):
    return w.reshape(w.shape[0], -1, size)


def integers(w, size, bits, symmetric, dtype):
    """Codes from 0, scales and zero points [rows, groups]."""
    x, half, top = grouped(w, size), 1 << (bits - 1), (1 << bits) - 1
    if symmetric:
        scales = (x.abs().amax(2) / (half - 0.5)).to(dtype)
        zeros = torch.full_like(scales, half)
    else:
        low, high = x.amin(2).clamp(max=0), x.amax(2).clamp(min=0)
        scales = ((high - low) / top).to(dtype)
        zeros = torch.round(-low / scales.float()).clamp(0, top)
    codes = (torch.round(x / scales.float()[..., None]) + zeros.float()[..., None]).clamp(0, top)
    values = (codes - zeros.float()[..., None]) * scales.float()[..., None]
    return (codes.reshape(w.shape).int(), scales, zeros.int(), values.reshape(w.shape))


def stream(codes, bits):
    """Numbers of so many bits along the last axis, in words, the lowest first."""
    columns = codes.shape[1]
    words = np.zeros((codes.shape[0], -(-columns * bits // 32)), np.uint64)
    for i in range(columns):
        word, shift = divmod(i * bits, 32)
        wide = codes[:, i].numpy().astype(np.uint64) << np.uint64(shift)
        words[:, word] |= wide & np.uint64(0xffffffff)
        if shift + bits > 32:
            words[:, word + 1] |= wide >> np.uint64(32)
    return torch.from_numpy(words.astype(np.uint32).view(np.int32).copy())


def int4_packed(w, size=32, symmetric=True, order=None, bits=4):
    x = w if order is None else w[:, torch.argsort(order, stable=True)]
    codes, scales, zeros, values = integers(x, size, bits, symmetric, torch.bfloat16)
    if order is not None:
        back = torch.argsort(torch.argsort(order, stable=True))
        codes, values = codes[:, back], values[:, back]
    tensors = {"weight_packed": stream(codes, bits), "weight_scale": scales,
               "weight_shape": torch.tensor(w.shape)}
    if not symmetric:
        tensors["weight_zero_point"] = stream(zeros.T, bits).T.contiguous()
    if order is not None:
        tensors["weight_g_idx"] = order.int()
    args = dict(num_bits=bits, type="int", symmetric=symmetric)
    args |= dict(strategy="group", group_size=size) if size < w.shape[1] else \
        dict(strategy="channel")
    if order is None:  # which compressed-tensors has had no longer since 0.12
        same(values, by_program(PackedQuantizationCompressor, tensors, scheme(**args)), 2e-2)
    return tensors, values


def int8_rows(w):
    codes, scales, _, values = integers(w, w.shape[1], 8, True, torch.bfloat16)
    return {"weight": (codes - 128).to(torch.int8), "weight_scale": scales}, values


def shuffled(columns, size):
    """The group of each column, of act-order."""
    generator = torch.Generator().manual_seed(columns)
    return (torch.randperm(columns, generator=generator) // size).int()


# An order of one group is none, so that only the matrices with rows of 96 have one.
def gptq(w, size, bits=4, symmetric=False, v2=False, shuffle=False):
    order = shuffled(w.shape[1], size) if shuffle else torch.arange(w.shape[1]).int() // size
    sort = torch.argsort(order, stable=True)
    codes, scales, zeros, values = integers(w[:, sort], size, bits, symmetric, torch.float16)
    back = torch.argsort(sort)
    codes, values = codes[:, back], values[:, back]
    zeros = zeros.clamp(min=1)  # one of 0 cannot be stored less one
    values = (codes - zeros[:, order.long()]) * scales.float()[:, order.long()]
    tensors = {"qweight": stream(codes, bits).T.contiguous(),
               "qzeros": stream(zeros.T - 1, bits),
               "scales": scales.T.contiguous(), "g_idx": order}
    check_gptq(tensors, values, bits, size)
    if v2:
        tensors["qzeros"] = stream(zeros.T, bits)
    return tensors, values


AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)


def awq_words(codes):
    """[.., rows] in words of eight: nibble i is row AWQ_ORDER[i]."""
    eights = codes.numpy().astype(np.uint32).reshape(codes.shape[0], -1, 8)
    words = sum(eights[:, :, row] << np.uint32(4 * i) for i, row in enumerate(AWQ_ORDER))
    return torch.from_numpy(words.astype(np.uint32).view(np.int32).copy())


def awq(w, size):
    codes, scales, zeros, values = integers(w, size, 4, False, torch.float16)
    tensors = {"qweight": awq_words(codes.T), "qzeros": awq_words(zeros.T),
               "scales": scales.T.contiguous()}
    check_awq(tensors, values, size)
    return tensors, values


def e2m1(x):
    nearest = (x.abs()[..., None] - E2M1).abs().argmin(-1)
    return nearest + 8 * (x < 0)


def from_e2m1(codes):
    return E2M1[codes & 7] * (1 - 2 * (codes >> 3).float())


def nibbles(codes):
    return (codes[:, ::2] | codes[:, 1::2] << 4).to(torch.uint8)


def nvfp4(w, packed):
    whole = 448 * 6 / w.abs().max()  # compressed-tensors divides by it, ModelOpt has the inverse
    x = grouped(w, 16)
    scales = (x.abs().amax(2) * whole / 6).clamp(max=448).to(F8)
    codes = e2m1((x * whole / scales.float().clamp(min=1e-9)[..., None])).reshape(w.shape)
    factor = 1 / whole if packed else (1 / whole).float()
    values = from_e2m1(codes).reshape(x.shape) * scales.float()[..., None]
    values = values.reshape(w.shape) * factor
    if not packed:
        return {"weight": nibbles(codes), "weight_scale": scales, "weight_scale_2": factor,
                "input_scale": torch.tensor(0.001)}, values
    tensors = {"weight_packed": nibbles(codes), "weight_scale": scales,
               "weight_global_scale": whole.reshape(1), "input_global_scale": torch.tensor([9.0])}
    same(values, by_program(NVFP4PackedCompressor, tensors,
                            scheme(num_bits=4, type="float", strategy="tensor_group",
                                   group_size=16)), 2e-2)
    return tensors, values


def powers(x, top):
    exponents = torch.floor(torch.log2(x.abs().amax(2) / top)) + 1
    return exponents, 2 ** exponents


def mxfp4(w):
    x = grouped(w, 32)
    exponents, scales = powers(x, 6)
    codes = e2m1(x / scales[..., None]).reshape(w.shape)
    values = (from_e2m1(codes).reshape(x.shape) * scales[..., None]).reshape(w.shape)
    tensors = {"weight_packed": nibbles(codes), "weight_scale": (exponents + 127).to(torch.uint8)}
    same(values, by_program(MXFP4PackedCompressor, tensors,
                            scheme(num_bits=4, type="float", strategy="group", group_size=32)))
    return tensors, values


def mxfp8(w):
    x = grouped(w, 32)
    exponents, scales = powers(x, 448)
    codes = (x / scales[..., None]).to(F8)
    values = (codes.float() * scales[..., None]).reshape(w.shape)
    tensors = {"weight": codes.reshape(w.shape), "weight_scale": (exponents + 127).to(torch.uint8)}
    same(values, by_program(MXFP8QuantizationCompressor, tensors,
                            scheme(num_bits=8, type="float", strategy="group", group_size=32,
                                   scale_dtype="torch.uint8")), 2e-2)
    return tensors, values


# ---- what programs make of them ----

def same(a, b, tolerance=0.0):
    """Programs that dequantise in bf16 round once more."""
    difference = ((a - b.float()).abs() / a.abs().clamp(min=1e-6)).max().item()
    assert difference <= tolerance, difference


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SOURCES = sys.argv[2:4] if sys.argv[1:2] == ["--check"] else None


def check_awq(tensors, values, size):
    if not SOURCES:
        return
    packing = load(pathlib.Path(SOURCES[0]) / "awq/utils/packing_utils.py", "packing_utils")
    w = packing.dequantize_gemm(tensors["qweight"], tensors["qzeros"], tensors["scales"].float(), 4,
                                size)
    same(values, w.T, 1e-6)


def check_gptq(tensors, values, bits, size):
    """By the layer in plain torch, whose zero points are less one."""
    if not SOURCES:
        return
    layers = load(pathlib.Path(SOURCES[1]) / "auto_gptq/nn_modules/qlinear/qlinear_cuda.py",
                  "qlinear_cuda")
    out, columns = values.shape
    layer = layers.QuantLinear(bits, size, columns, out, False)
    for name, tensor in tensors.items():
        setattr(layer, name, tensor)
    layer.scales = layer.scales.float()
    # Its product with the unit matrix is the matrix.
    same(values, layer(torch.eye(columns)).detach().T, 1e-5)


# ---- models ----

def linears(model):
    return {name: module for name, module in model.named_modules()
            if isinstance(module, torch.nn.Linear) and "lm_head" not in name}


def fill(model, seed):
    generator = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        with torch.no_grad():
            if p.ndim == 1:
                p.copy_(1 + 0.1 * torch.randn(p.shape, generator=generator))
                if name.endswith("bias"):
                    p.copy_(0.1 * torch.randn(p.shape, generator=generator))
            elif "embed" in name or "lm_head" in name:
                p.copy_(0.45 * torch.randn(p.shape, generator=generator))
            else:
                p.copy_(1.3 * p.shape[-1] ** -0.5 * torch.randn(p.shape, generator=generator))
            p.copy_(p.bfloat16().float())
    return model


def experts_of(model):
    """The experts' matrices, of which transformers has one for all: name -> (tensor, rows)."""
    found = {}
    for name, module in model.named_modules():
        if not hasattr(module, "gate_up_proj") or module.gate_up_proj.ndim != 3:
            continue
        width = module.gate_up_proj.shape[1] // 2
        for e in range(module.gate_up_proj.shape[0]):
            found[f"{name}.{e}.gate_proj"] = module.gate_up_proj[e, :width]
            found[f"{name}.{e}.up_proj"] = module.gate_up_proj[e, width:]
            found[f"{name}.{e}.down_proj"] = module.down_proj[e]
    return found


def eight_bits(w):
    """8 bits of groups of 64, or 32, around zero, as mica has them."""
    x = grouped(w, 32 if w.shape[1] % 64 else 64)
    scales = x.abs().amax(2) / 127
    up = scales.bfloat16().float()
    scales = torch.where(up < scales, (scales * (1 + 2 ** -7)).bfloat16().float(), up)
    return (torch.round(x / scales[..., None]) * scales[..., None]).reshape(w.shape)


class Case:
    """wide: rows of more columns are not exact in mica."""

    def __init__(self, name, config, quantise, stated, wide=None, keep=(), prefix="", top=None,
                 family=None):
        self.name, self.config, self.quantise, self.stated = name, config, quantise, stated
        self.wide, self.exact = wide, wide is None
        self.keep, self.prefix, self.top = keep, prefix, top
        self.family = family or config.model_type

    def is_kept(self, name):
        return any(word in name for word in self.keep)

    def matrices(self, model):
        found = {name: module.weight for name, module in linears(model).items()}
        found |= experts_of(model)
        return {name: p for name, p in found.items() if not self.is_kept(name)}

    def make(self, seed):
        torch.manual_seed(seed)
        model = fill(transformers.AutoModelForCausalLM.from_config(
            self.config, attn_implementation="eager", dtype=torch.float32), seed).eval()
        self.tensors, self.values = {}, {}
        rough = {}
        with torch.no_grad():
            for name, p in self.matrices(model).items():
                parts, values = self.quantise(p.data.clone())
                for ending, tensor in parts.items():
                    self.tensors[f"{name}.{ending}"] = tensor
                is_rough = self.wide and p.shape[-1] > self.wide
                rough[name] = eight_bits(values) if is_rough else values
                self.values[name] = values
                p.copy_(values)
        for name, p in model.named_parameters():
            module = name.removesuffix(".weight")
            if module not in self.values and not ("experts." in name and p.ndim == 3):
                self.tensors[name] = p.data.bfloat16()
        self.tensors.pop("lm_head.weight", None)
        self.error = 0.0
        if not self.exact:
            self.error = self.error_of(model, rough)
        return model

    def error_of(self, model, rough):
        ids = prompts(0)[3][None]
        with torch.no_grad():
            before = model(ids).logits
            for name, p in self.matrices(model).items():
                p.copy_(rough[name])
            after = model(ids).logits
            for name, p in self.matrices(model).items():
                p.copy_(self.values[name])
        return (before - after).abs().max().item()


def prompts(seed):
    generator = torch.Generator().manual_seed(1000 + seed)
    return [torch.randint(2, VOCAB, (n,), generator=generator) for n in LENGTHS]


def continue_greedily(model, ids, steps=24):
    tokens, rows, margin = [], [], 1e9
    for _ in range(steps):
        logits = model(ids[None]).logits[0, -1]
        best = logits.topk(2).values
        margin = min(margin, (best[0] - best[1]).item())
        rows.append(logits)
        tokens.append(logits.argmax())
        ids = torch.cat([ids, tokens[-1][None]])
    return torch.stack(tokens).int(), torch.stack(rows), margin


def goldens(case, model):
    out, margin = {}, 1e9
    asked = prompts(0)
    with torch.no_grad():
        for i, ids in enumerate(asked):
            run = model(ids[None], use_cache=True)
            out[f"prompt{i}.ids"] = ids.int()
            out[f"prompt{i}.logits"] = run.logits[0]
            out[f"prompt{i}.greedy"], rows, least = continue_greedily(model, ids)
            margin = min(margin, least)
            if i == 3:
                out["prompt3.greedy_logits"] = rows
            if i == 2:
                out["prompt2.layer0.k"] = run.past_key_values.layers[0].keys[0]
        lengths = list(LENGTHS[1:])
        out["batch.ids"] = torch.stack([
            torch.nn.functional.pad(asked[i], (0, LENGTHS[3] - len(asked[i])))
            for i in (1, 2, 3)]).int()
        out["batch.lengths"] = torch.tensor(lengths).int()
        out["batch.last_logits"] = torch.stack([out[f"prompt{i}.logits"][-1] for i in (1, 2, 3)])
    name = next(n for n in case.values if n.endswith("down_proj"))
    out["values"] = case.values[name][:4]
    return out, margin, name


def tolerance_of(case):
    return 0.001 if case.exact else max(0.001, 1.8 * case.error)


def write(case, model, out, margin, name, seed):
    folder = FIXTURES / "published" / case.name
    folder.mkdir(parents=True)
    config = case.config.to_dict() if case.top is None else dict(case.top)
    if case.top is not None:
        config["text_config"] = case.config.to_dict()
    config = {k: v for k, v in config.items() if v is not None}
    config |= {"quantization_config": case.stated}
    config.setdefault("architectures", [type(model).__name__])
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    save_file({case.prefix + k: v.contiguous() for k, v in case.tensors.items()},
              folder / "model.safetensors", metadata={"format": "pt"})
    save_file({k: v.contiguous() for k, v in out.items()}, folder / "golden.safetensors")
    tolerance = tolerance_of(case)
    golden = {"case": case.name, "family": case.family, "seed": seed, "exact": case.exact,
              "values_of": case.prefix.removesuffix("model.") + name if case.prefix else name,
              "min_top1_top2_margin_on_greedy_path": round(margin, 4),
              "change_of_8_bits": round(case.error, 5),
              "tolerance": {"logits_max_abs_f32_compute": round(tolerance, 4), "greedy": "exact",
                            "k_max_abs": 0.0001 if case.exact else round(tolerance, 4)}}
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    print(case.name, "seed", seed, "margin", round(margin, 3), "change", round(case.error, 4),
          sum(f.stat().st_size for f in folder.iterdir()) // 1024, "KiB", flush=True)


# Where the search for a seed begins: these have answers with wider margins.
FIRST_SEED = {"int4_order": 53, "gptq_order": 70}


def run(case):
    for seed in range(FIRST_SEED.get(case.name, 1), 2000):
        model = case.make(seed)
        out, margin, name = goldens(case, model)
        if margin > max(0.02, 2.5 * case.error):
            return write(case, model, out, margin, name, seed)
    raise SystemExit(f"{case.name}: no seed has a margin")


def llama(**more):
    return transformers.LlamaConfig(**(SIZES | more))


def qwen3(**more):
    return transformers.Qwen3Config(**(SIZES | more))


def moe():
    return transformers.Qwen3MoeConfig(**(SIZES | dict(
        moe_intermediate_size=32, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True,
        decoder_sparse_step=1, mlp_only_layers=[])))


def ministral3():
    return transformers.Ministral3Config(**(SIZES | dict(rope_parameters={
        "rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "beta_fast": 4.0,
        "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1,
        "original_max_position_embeddings": 8})))


def packed_config(fmt, weights, ignore=("lm_head",), activations=None):
    return {"quant_method": "compressed-tensors", "format": fmt, "ignore": list(ignore),
            "quantization_status": "compressed",
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights,
                                          "input_activations": activations,
                                          "output_activations": None}}}


def weights_config(bits, kind, strategy, size=None, symmetric=True, **more):
    return {"num_bits": bits, "type": kind, "strategy": strategy, "group_size": size,
            "symmetric": symmetric, "dynamic": False} | more


FP8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
       "weight_block_size": [128, 128]}
EIGHT = weights_config(8, "int", "token", symmetric=True)

CASES = [
    Case("fp8_block", qwen3(intermediate_size=160), fp8_block,
         FP8 | {"modules_to_not_convert": ["lm_head"]}, wide=128),
    Case("fp8_block_powers", qwen3(intermediate_size=160), lambda w: fp8_block(w, True),
         FP8 | {"scale_fmt": "ue8m0"}),
    Case("fp8_block_moe", moe(), fp8_block,
         FP8 | {"modules_to_not_convert": ["lm_head", "model.layers.0.mlp.gate"]},
         keep=("mlp.gate",)),  # a block is a matrix
    Case("fp8_tensor", ministral3(), fp8_tensor,
         {"quant_method": "fp8", "activation_scheme": "static", "weight_block_size": None,
          "modules_to_not_convert": ["model.vision_tower", "lm_head"]},
         prefix="language_model.", top={"model_type": "mistral3", "vision_config": {}},
         family="ministral3"),
    Case("fp8_modelopt", llama(), fp8_modelopt,
         {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"],
          "kv_cache_quant_algo": "FP8"}),
    Case("fp8_rows", llama(), fp8_rows,
         packed_config("float-quantized", weights_config(8, "float", "channel"),
                       activations=weights_config(8, "float", "token"))),
    Case("int4_groups", qwen3(), int4_packed,
         packed_config("pack-quantized", weights_config(4, "int", "group", 32),
                       ["lm_head", "re:.*k_proj", "model.layers.0.self_attn.v_proj"]),
         keep=("k_proj", "v_proj")),
    Case("int4_rows", llama(), lambda w: int4_packed(w, w.shape[1], False),
         packed_config("pack-quantized", weights_config(4, "int", "channel", symmetric=False),
                       activations=EIGHT)),
    Case("int4_order", llama(),
         lambda w: int4_packed(w, 32, True, shuffled(w.shape[1], 32)),
         packed_config("pack-quantized", weights_config(4, "int", "group", 32, actorder="group"))),
    Case("int8_rows", llama(), int8_rows,
         packed_config("int-quantized", weights_config(8, "int", "channel"), activations=EIGHT)),
    Case("awq", transformers.Qwen2Config(**(SIZES | dict(head_dim=8))), lambda w: awq(w, 32),
         {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm",
          "zero_point": True, "modules_to_not_convert": ["o_proj"]}, keep=("o_proj",)),
    Case("awq_moe", moe(), lambda w: awq(w, 32),
         {"quant_method": "awq", "bits": 4, "group_size": 32, "version": "gemm",
          "zero_point": True, "modules_to_not_convert": ["gate"]}, keep=("mlp.gate",)),
    Case("gptq", llama(), lambda w: gptq(w, 32),
         {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": False, "desc_act": False}),
    Case("gptq_3_bits", llama(), lambda w: gptq(w, 32, 3),
         {"quant_method": "gptq", "bits": 3, "group_size": 32, "sym": False, "desc_act": False,
          "checkpoint_format": "gptq"}),
    Case("gptq_order", llama(), lambda w: gptq(w, 32, symmetric=True, v2=True, shuffle=True),
         {"quant_method": "gptq", "bits": 4, "group_size": 32, "sym": True, "desc_act": True,
          "checkpoint_format": "gptq_v2"}),
    Case("nvfp4_modelopt", qwen3(), lambda w: nvfp4(w, False),
         {"quant_method": "modelopt", "quant_algo": "NVFP4", "ignore": ["lm_head"]}),
    Case("nvfp4_moe", moe(), lambda w: nvfp4(w, True),
         packed_config("nvfp4-pack-quantized", weights_config(4, "float", "tensor_group", 16),
                       ["lm_head", "re:.*mlp.gate$"]), keep=("mlp.gate",)),
    Case("mxfp4_packed", qwen3(), mxfp4,
         packed_config("mxfp4-pack-quantized", weights_config(4, "float", "group", 32))),
    Case("mxfp8", llama(), mxfp8,
         packed_config("mxfp8-quantized", weights_config(8, "float", "group", 32))),
]


def add_to_manifest():
    path = FIXTURES / "MANIFEST.sha256"
    lines = [line for line in path.read_text().splitlines() if "  published/" not in line]
    for file in sorted((FIXTURES / "published").rglob("*")):
        if file.is_file():
            digest = hashlib.sha256(file.read_bytes()).hexdigest()
            lines.append(f"{digest}  {file.relative_to(FIXTURES)}")
    path.write_text("\n".join(sorted(lines, key=lambda line: line.split("  ")[1])) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for one in CASES:
        if not sys.argv[4:] or one.name in sys.argv[4:]:
            shutil.rmtree(FIXTURES / "published" / one.name, ignore_errors=True)
            run(one)
    add_to_manifest()
