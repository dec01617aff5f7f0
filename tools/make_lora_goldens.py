#!/usr/bin/env python3
"""Makes tests/fixtures/tune/families.json: five steps of LoRA by PEFT, of each family's golden.

    python3 tools/make_lora_goldens.py [CASE...]    (needs torch, transformers and peft; made with
                                                     torch 2.15, transformers 5.24 and peft 0.21)

Cases are the folders of tests/fixtures/families. Those in mlx-lm's form, which transformers does
not read, are dequantised and renamed first (mlx_weights.py). A folder counts if its logits are
those of its golden. Factors of rank 2 are beside each linear module of the layers, and beside
stacked experts. B is zero at first; number k of A, in rows of `in` numbers, is

    (2 (k * 0x9e3779b1 mod 2^32) / 2^32 - 1) / sqrt(in)

The text is a prompt of the golden. Kept are the losses before each of five steps of SGD, that
behind the last, and the root of the sum of the squares of all B.

The text and the rate are the first with which the losses fall, and in which rounding does not show:
weights that differ in their last bits give losses that are ten times as close as the test asks. A
router whose experts are nearly a tie shows so, and a gated delta net whose first query and key are
nearly orthogonal: what it gives, their product times the value, is far below the epsilon of the
norm behind it, whose gradient makes an error of the product a thousand times larger.
"""
import json
import pathlib
import re
import sys

import numpy as np
import torch
import transformers
from peft import LoraConfig, get_peft_model
from safetensors.numpy import load_file
from safetensors.torch import load_file as load_weights
from transformers import AutoConfig, AutoModelForCausalLM, DeepseekV3Config

from mlx_weights import load_hub_weights

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

RANK, SCALE, STEPS = 2, 2.0, 5
PROMPTS = ("prompt2", "prompt3")
RATES = (0.1, 0.03, 0.01, 0.003, 0.001)
ALLOWED = 1e-3  # for each loss so far, in the test
DRAWS, LAST_BITS = 8, 2.0 ** -22
RENAMED = ("qwen3_next", "deepseek_v3", "glm4_moe_lite")
MLP = (".gate_proj", ".up_proj", ".down_proj")
SPLIT = (".kv_b_proj", ".shared_mlp.input_linear")  # by mlx-lm
IN_MLX = {"shared_mlp.output_linear": "mlp.down_proj"}
MAMBA = ("nemotron_h", "granitemoehybrid")
FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures"
TEXTS = ("gemma3n_hf", "ministral3_hf")
OUT = FIXTURES / "tune/families.json"


def read_config(folder):
    """Kimi K2 is DeepSeek V3 by another name, which transformers knows by its own code alone."""
    config = json.loads((folder / "config.json").read_text())
    if config["model_type"] == "kimi_k2":
        return DeepseekV3Config.from_dict({**config, "model_type": "deepseek_v3"})
    return AutoConfig.from_pretrained(folder)


def text_weights(folder):
    """The tensors of the text model of a folder with others."""
    prefix = re.compile(r"^(language_model\.model\.|model\.language_model\.)")
    return {prefix.sub("model.", k): v.float() for k, v in
            load_weights(folder / "model.safetensors").items()
            if prefix.match(k) or "lm_head" in k}


def open_text(config, weights):
    """The text model of tensors by the names of its modules."""
    config = config.get_text_config()
    config.quantization_config = None
    model = AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation="eager",
        experts_implementation="eager").eval()
    missing = model.load_state_dict(weights, strict=False).missing_keys
    assert missing in ([], ["lm_head.weight"]), missing
    model.tie_weights()
    return model


def form(folder):
    return json.loads((folder / "golden.json").read_text())["form"]


def open_model(folder):
    """The model in f32."""
    config = read_config(folder)
    if form(folder) == "mlx-lm":
        return open_text(config, load_hub_weights(folder))
    if folder.name in TEXTS:
        return open_text(config, text_weights(folder))
    return AutoModelForCausalLM.from_pretrained(
        folder, config=config, dtype=torch.float32, attn_implementation="eager",
        experts_implementation="eager").eval()


def loss_of(model, ids):
    logits = model(input_ids=ids, use_cache=False).logits[0].float()
    return torch.nn.functional.cross_entropy(logits[:-1], ids[0, 1:])


def first_a(rows, columns):
    k = np.arange(rows * columns, dtype=np.uint64) * np.uint64(0x9E3779B1) % np.uint64(1 << 32)
    x = (2.0 * k.astype(np.float64) / 2.0 ** 32 - 1.0) / np.sqrt(columns)
    return torch.tensor(x.astype(np.float32).reshape(rows, columns))


def targets(folder, model):
    """Names within a layer: of linear modules, and of stacked experts; and their whole names.

    PEFT takes no out_proj of models with Mamba. Where files have a tensor for each expert, or for
    gate and up, these have factors of their own in mica, and one pair in PEFT: they are left out.
    So are dense and shared MLPs beside them (RENAMED), whose names PEFT takes for those of the
    experts, and the projection that mlx-lm splits by heads.
    """
    modules, experts, names = set(), set(), []
    mlx = form(folder) == "mlx-lm"
    single = mlx or any(".experts.0." in k for k in load_weights(folder / "model.safetensors"))
    layer = re.compile(r"^(?!.*(vision|audio|visual)).*\blayers\.\d+\.(.*)$")
    for name, module in model.named_modules():
        found = layer.match(name)
        if not found:
            continue
        shared = model.config.model_type in RENAMED and name.endswith(MLP)
        mamba = model.config.model_type in MAMBA and name.endswith("out_proj")
        split = mlx and name.endswith(SPLIT)
        if isinstance(module, torch.nn.Linear) and not (mamba or shared or split):
            modules.add(IN_MLX.get(found[2], found[2]) if mlx else found[2])
            names.append(name)
        for key, p in module.named_parameters(recurse=False):
            if p.ndim == 3 and "conv" not in name and not (single and "gate_up" in key):
                experts.add(f"{found[2]}.{key}")
    return sorted(modules), sorted(experts), names


def change_last_bits(model, draw):
    generator = torch.Generator().manual_seed(draw)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1 + LAST_BITS * (2 * torch.rand(p.shape, generator=generator) - 1))


def train(folder, ids, rate, draw=None):
    model = open_model(folder)
    if draw is not None:
        change_last_bits(model, draw)
    modules, experts, names = targets(folder, model)
    config = LoraConfig(r=RANK, lora_alpha=SCALE * RANK, target_modules=names,
                        target_parameters=experts or None, lora_dropout=0.0)
    model = get_peft_model(model, config).eval()
    factors = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    for name, p in factors:
        p.data = first_a(*p.shape) if ".lora_A." in name else torch.zeros_like(p)
    optimizer = torch.optim.SGD([p for _, p in factors], rate)
    losses = []
    for step in range(STEPS + 1):
        loss = loss_of(model, ids)
        losses.append(float(loss.detach()))
        if step < STEPS:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    norm = sum(float(p.detach().double().square().sum()) for n, p in factors if ".lora_B." in n)
    return {"modules": modules, "experts": experts, "rate": rate, "losses": losses,
            "norm": norm ** 0.5}


def falls(losses):
    return all(np.isfinite(losses)) and all(a > b for a, b in zip(losses, losses[1:]))


def rounding_shows(folder, ids, case):
    allowed = ALLOWED / 10 * (np.arange(STEPS + 1) + 1)
    for draw in range(DRAWS):
        losses = train(folder, ids, case["rate"], draw)["losses"]
        if not (np.abs(np.subtract(losses, case["losses"])) <= allowed).all():
            return True
    return False


def find_case(folder, texts):
    for text in PROMPTS:
        for rate in RATES:
            case = {"text": text, **train(folder, texts[text], rate)}
            if falls(case["losses"]) and not rounding_shows(folder, texts[text], case):
                return case
    raise SystemExit(f"{folder.name}: the losses do not fall, or rounding shows in them")


def make(folder):
    golden = json.loads((folder / "golden.json").read_text())
    tensors = load_file(folder / "golden.safetensors")
    texts = {p: torch.tensor(tensors[p + ".ids"][None].astype(np.int64)) for p in PROMPTS}
    model = open_model(folder)
    with torch.no_grad():
        got = model(input_ids=texts["prompt2"], use_cache=False).logits[0].float().numpy()
    apart = np.abs(got - tensors["prompt2.logits"]).max()
    if not apart < golden["tolerance"]["logits_max_abs_f32_compute"]:
        print(f"{folder.name}: transformers' loader is {apart:.3g} apart from the golden")
        return None
    case = find_case(folder, texts)
    print(folder.name, case["text"], case["rate"], [round(v, 4) for v in case["losses"]],
          case["modules"], case["experts"])
    return case


def main():
    cases = json.loads(OUT.read_text()) if OUT.exists() else {}
    for folder in sorted((FIXTURES / "families").iterdir()):
        if folder.name not in sys.argv[1:] and len(sys.argv) > 1:
            continue
        case = make(folder)
        if case:
            cases[folder.name] = case
    OUT.write_text(json.dumps(dict(sorted(cases.items())), indent=1) + "\n")


if __name__ == "__main__":
    main()
