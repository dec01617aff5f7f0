"""The weights of a folder in mlx-lm's form under the names of transformers' modules, in f32."""
import json
import re

import torch
from safetensors.torch import load_file

E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0,
                     -4.0, -6.0])
STEM = re.compile(r"\.(weight|scales|biases|bias)$")


def codes_of(packed, bits):
    """[..., n] 32-bit words -> [..., n * 32 / bits], the lowest bits first."""
    words = packed.view(torch.int32).long() & 0xFFFFFFFF
    codes = (words[..., None] >> torch.arange(0, 32, bits)) & (1 << bits) - 1
    return codes.flatten(-2)


def dequantise(packed, scales, biases, group):
    """Affine: code * scale + bias. mxfp4, which has no biases: e2m1 * 2^(scale - 127)."""
    bits = packed.shape[-1] * 32 // (scales.shape[-1] * group)
    codes = codes_of(packed, bits).unflatten(-1, (-1, group))
    if biases is None:
        assert bits == 4 and scales.dtype == torch.uint8
        return (E2M1[codes] * torch.exp2(scales.float() - 127)[..., None]).flatten(-2)
    return (codes * scales.float()[..., None] + biases.float()[..., None]).flatten(-2)


def read_folder(folder):
    """Tensors by mlx-lm's names without the wrapper's, dequantised."""
    config = json.loads((folder / "config.json").read_text())
    quantization = config.get("quantization", {})
    stored = load_file(folder / "model.safetensors")
    tensors = {}
    for name, value in stored.items():
        module = STEM.sub("", name)
        if name.endswith((".scales", ".biases")):
            continue
        if name.endswith(".weight") and module + ".scales" in stored:
            scales, biases = stored[module + ".scales"], stored.get(module + ".biases")
            group = quantization.get(module, quantization)["group_size"]
            value = dequantise(value, scales, biases, group)
        tensors[name.removeprefix("language_model.")] = value.float()
    return tensors


def joined(tensors, stem, parts, new, merge):
    """Replaces stem + part of each layer by stem + new."""
    for name in [n for n in tensors if n.endswith(stem + parts[0])]:
        prefix = name[:-len(stem + parts[0])]
        values = [tensors.pop(prefix + stem + part) for part in parts]
        tensors[prefix + new] = merge(*values)


def rows(gate, up):
    return torch.cat((gate, up), -2)


def in_turns(gate, up):
    """gpt-oss: columns of gate and up are in turns."""
    return torch.stack((gate, up), -1).flatten(-2)


def turned(gate, up):
    return in_turns(gate.mT, up.mT)


def latent(embed_q, unembed_out):
    """[heads, latent, nope], [heads, v, latent] -> kv_b_proj [heads * (nope + v), latent]."""
    return torch.cat((embed_q.mT, unembed_out), 1).flatten(0, 1)


ZERO_CENTRED = re.compile(r"(layernorm|model\.norm|q_norm|k_norm)\.weight$")
WEIGHT, UP = ".weight", ("gate_proj.weight", "up_proj.weight")
JOINS = {
    "gpt_oss": (("mlp.experts.", UP, "mlp.experts.gate_up_proj", turned),
                ("mlp.experts.", ("gate_proj.bias", "up_proj.bias"),
                 "mlp.experts.gate_up_proj_bias", in_turns),
                ("mlp.experts.", ("down_proj.weight",), "mlp.experts.down_proj", lambda w: w.mT),
                ("mlp.experts.", ("down_proj.bias",), "mlp.experts.down_proj_bias", lambda b: b)),
    "granitemoehybrid": (("mlp.", UP, "shared_mlp.input_linear.weight", rows),
                         ("mlp.", ("down_proj.weight",), "shared_mlp.output_linear.weight",
                          lambda w: w)),
}
OTHERS = (("mlp.switch_mlp.", UP, "mlp.experts.gate_up_proj", rows),
          ("mlp.switch_mlp.", ("down_proj.weight",), "mlp.experts.down_proj", lambda w: w),
          ("self_attn.", ("embed_q.weight", "unembed_out.weight"), "self_attn.kv_b_proj.weight",
           latent))


def load_hub_weights(folder):
    """Names of transformers' text models -> tensors in f32.

    Norms of Qwen 3.5 lose the 1 that mlx-lm adds, kernels of convolutions have their channel last
    no more, gate and up are one tensor again.
    """
    family = json.loads((folder / "config.json").read_text())["model_type"]
    tensors = read_folder(folder)
    for join in JOINS.get(family, OTHERS):
        joined(tensors, *join)
    for name in tensors:
        if name.endswith("conv1d.weight"):
            tensors[name] = tensors[name].mT.contiguous()
        elif family.startswith("qwen3_5") and ZERO_CENTRED.search(name):
            tensors[name] -= 1
    return tensors
