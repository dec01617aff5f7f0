#!/usr/bin/env python3
"""How far other programs are from themselves in float32 when they compute in bf16, as they do with
a model in bf16 unless told otherwise: what divergence.py says of `fast` arithmetic, of the same
texts.

    python3 bench/peers/divergence_bf16.py MODEL TRANSLATION [--by transformers|mlx-lm]
                                           [--count 300] [--seed 5]

MODEL is models/default, or another of the class that transformers calls Gemma3ForCausalLM, by MLX
in 4 bits. Wants numpy and tokenizers, and torch, transformers and safetensors, or mlx and mlx-lm.
"""
import json
import pathlib
import sys

import numpy
import tokenizers

# At the end: a program there is called tokenizers, too.
sys.path.append(str(pathlib.Path(__file__).parent.parent))
import divergence


def by_transformers(model):
    """Functions from token ids to logits, in float32 and in bf16. Both have the weights that MLX
    stored, rounded to bf16, and angles of rope in float32, as a model in bf16 has them when it is
    loaded."""
    import safetensors.torch
    import torch
    import transformers

    config = json.loads((model / "config.json").read_text())
    group = config["quantization"]["group_size"]
    config = {k: v for k, v in config.items() if k not in ("quantization", "quantization_config", "torch_dtype")}
    stored = safetensors.torch.load_file(model / "model.safetensors")
    weights = {}
    for name, weight in stored.items():
        base, _, kind = name.rpartition(".")
        if kind in ("scales", "biases"):
            continue
        if f"{base}.scales" in stored:
            words = weight.numpy().view(numpy.uint32)
            codes = (words[..., None] >> numpy.arange(0, 32, 4, dtype=numpy.uint32) & 15).reshape(len(words), -1, group)
            scale, bias = (stored[f"{base}.{kind}"].float()[..., None] for kind in ("scales", "biases"))
            weight = (torch.from_numpy(codes.astype(numpy.float32)) * scale + bias).flatten(1)
        weights[name] = weight.bfloat16().float()
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"]

    def of(dtype):
        network = transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**config))
        network.load_state_dict(weights)
        network = network.to(dtype).eval()
        for rope in network.model.rotary_emb, network.model.rotary_emb_local:
            rope.inv_freq = rope.original_inv_freq

        def logits(ids):
            with torch.no_grad():
                return network(torch.tensor([ids])).logits[0].float().numpy()
        return logits
    return of(torch.float32), of(torch.bfloat16)


def by_mlx_lm(model):
    import mlx.core as mx
    from mlx_lm.utils import load_model

    def of(dtype):
        network, _ = load_model(model)
        network.set_dtype(dtype)
        return lambda ids: numpy.array(network(mx.array([ids]))[0].astype(mx.float32))
    return of(mx.float32), of(mx.bfloat16)


def check(model):
    config = json.loads((model / "config.json").read_text())
    how = config.get("quantization", {})
    if (config.get("model_type"), how.get("mode", "affine"), how.get("bits")) != ("gemma3_text", "affine", 4):
        sys.exit(f"{model}: wants a model of type gemma3_text in MLX's affine 4 bits, such as models/default")


def log_softmax(logits):
    logits = logits.astype(numpy.float64)
    logits -= logits.max(-1, keepdims=True)
    return logits - numpy.log(numpy.exp(logits).sum(-1, keepdims=True))


def main():
    parser = divergence.options(__doc__)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("translation", type=pathlib.Path)
    parser.add_argument("--by", choices=("transformers", "mlx-lm"), default="transformers")
    args = parser.parse_args()
    check(args.model)
    encode = tokenizers.Tokenizer.from_file(str(args.model / "tokenizer.json")).encode
    exact, fast = (by_transformers if args.by == "transformers" else by_mlx_lm)(args.model)
    rows = []
    for text in divergence.chosen(args.translation, args.count, args.seed):
        ids = encode(text).ids
        p, q = (log_softmax(logits(ids)[:-1]) for logits in (exact, fast))
        rows.append({"tokens": len(p),
                     "perplexity": numpy.exp(-p[numpy.arange(len(p)), ids[1:]].mean()),
                     "mean_kl": (numpy.exp(p) * (p - q)).sum(-1).mean(),
                     "top_1_agreement": (p.argmax(-1) == q.argmax(-1)).mean()})
    divergence.report(rows)


if __name__ == "__main__":
    main()
