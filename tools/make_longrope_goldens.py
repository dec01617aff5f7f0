#!/usr/bin/env python3
"""Makes tests/fixtures/longrope.*: longrope on both sides of the context before it was stretched.

    python3 tools/make_longrope_goldens.py     (needs torch, transformers, numpy and safetensors;
                                                made with torch 2.15.0 and transformers 5.24.0)

The model is that of families/phi3_longrope_hf, whose config gets an original context of 32 tokens:
texts of up to as many have the divisors for short ones, others those for long ones. Logits are of
whole texts, in f32; greedy answers are computed anew for each token.
"""
import json
import pathlib

import numpy as np
import torch
from safetensors.numpy import load_file, save_file
from safetensors.torch import load_file as load_weights
from transformers import Phi3Config, Phi3ForCausalLM

ORIGINAL, ROWS, STEPS = 32, 6, 12
fixtures = pathlib.Path(__file__).parent.parent / "tests" / "fixtures"
folder = fixtures / "families" / "phi3_longrope_hf"

config = json.loads((folder / "config.json").read_text())
config["original_max_position_embeddings"] = ORIGINAL
model = Phi3ForCausalLM(Phi3Config(**config, attn_implementation="eager")).float().eval()
weights = {k: v.float() for k, v in load_weights(folder / "model.safetensors").items()}
missing, unexpected = model.load_state_dict(weights, strict=False)
assert not unexpected and missing in ([], ["lm_head.weight"]), (missing, unexpected)
model.tie_weights()


@torch.no_grad()
def logits(ids):
    return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


ids = load_file(folder / "golden.safetensors")["prompt3.ids"].astype(np.int64).tolist()
golden = {}
for name, n in [("short", 20), ("border", ORIGINAL), ("long", ORIGINAL + 1), ("longer", len(ids))]:
    text = ids[:n]
    golden[f"{name}.ids"] = np.array(text, np.int32)
    golden[f"{name}.logits"] = logits(text)[-ROWS:].copy()
    if n > ORIGINAL:
        for _ in range(STEPS):
            text = text + [int(logits(text)[-1].argmax())]
        golden[f"{name}.greedy"] = np.array(text[n:], np.int32)
far = np.abs(logits(ids[:ORIGINAL + 1])[:ORIGINAL] - logits(ids[:ORIGINAL])).max()
assert far > 1, far  # the two lists differ enough to be told apart
save_file(golden, fixtures / "longrope.safetensors", metadata={"original": str(ORIGINAL)})
