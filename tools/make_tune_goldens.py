#!/usr/bin/env python3
"""Makes tests/fixtures/tune/: optimisers by MLX and PyTorch, DPO by trl, ORPO by trl, DoRA by PEFT.

    python3 tools/make_tune_goldens.py   (needs torch, transformers, peft, trl, mlx, safetensors,
                                          tensorboard; made with 2.15, 5.23, 0.21, 1.16, 0.32, 0.8,
                                          2.21)

optimizers.safetensors: "init.<i>" parameters of three shapes; "grad.<step>.<i>"; for each case of
optimizers.json "<case>.<i>", the parameters after all steps.
preferences.safetensors: base model models/qwen3_tied with the factors "init.*" of
train/lora_qwen3, "ids" [4, T] (two chosen texts, then two rejected ones), "mask" [4, T - 1];
preferences.json: loss and, in the tensors, "dpo.grad.*", "orpo.grad.*", "dora.grad.*" of each
parameter. DoRA: the same model and factors, masked cross-entropy of the chosen texts.
events.tfevents: three records by TensorBoard's writer, which its reader has read.
"""
import hashlib
import json
import pathlib
import shutil
import tempfile
import types

import mlx.core as mx
import mlx.optimizers as mlx_optimizers
import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from safetensors.numpy import load_file, save_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.compat.proto import event_pb2, summary_pb2
from tensorboard.summary.writer.record_writer import RecordWriter
from transformers import AutoModelForCausalLM
from trl import DPOTrainer
from trl.experimental.orpo import ORPOTrainer

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures"
BETA, LENGTH, RANK, SCALE, STEPS, RATE = 0.25, 19, 4, 5.0, 3, 0.01


def update_manifest(name):
    path = FIXTURES / "MANIFEST.sha256"
    lines = [line for line in path.read_text().splitlines() if line.split("  ")[1] != name]
    lines.append(f"{hashlib.sha256((FIXTURES / name).read_bytes()).hexdigest()}  {name}")
    path.write_text("\n".join(sorted(lines, key=lambda line: line.split("  ")[1])) + "\n")


def save(name, tensors, facts):
    (FIXTURES / "tune").mkdir(exist_ok=True)
    tensors = {k: np.ascontiguousarray(v) for k, v in tensors.items()}
    save_file(tensors, FIXTURES / f"tune/{name}.safetensors")
    (FIXTURES / f"tune/{name}.json").write_text(json.dumps(facts, indent=1) + "\n")
    update_manifest(f"tune/{name}.safetensors")
    update_manifest(f"tune/{name}.json")


# Our options, and the same of MLX and of PyTorch (None: PyTorch's differs by design).
CASES = {
    "adam": ({"name": "adam"}, lambda: mlx_optimizers.Adam(RATE), None),
    "adamw": ({"name": "adamw"}, lambda: mlx_optimizers.AdamW(RATE), None),
    "adamw_corrected": (
        {"name": "adamw", "bias_correction": True, "weight_decay": 0.1},
        lambda: mlx_optimizers.AdamW(RATE, weight_decay=0.1, bias_correction=True),
        lambda p: torch.optim.AdamW(p, RATE, weight_decay=0.1)),
    "sgd": ({"name": "sgd"}, lambda: mlx_optimizers.SGD(RATE), lambda p: torch.optim.SGD(p, RATE)),
    "sgd_momentum": (
        {"name": "sgd", "momentum": 0.9, "weight_decay": 0.1},
        lambda: mlx_optimizers.SGD(RATE, momentum=0.9, weight_decay=0.1),
        lambda p: torch.optim.SGD(p, RATE, momentum=0.9, weight_decay=0.1)),
    "sgd_nesterov": (
        {"name": "sgd", "momentum": 0.8, "nesterov": True},
        lambda: mlx_optimizers.SGD(RATE, momentum=0.8, nesterov=True),
        lambda p: torch.optim.SGD(p, RATE, momentum=0.8, nesterov=True)),
    "lion": ({"name": "lion", "weight_decay": 0.1},
             lambda: mlx_optimizers.Lion(RATE, weight_decay=0.1), None),
    "adafactor": (
        {"name": "adafactor", "weight_decay": 0.1},
        lambda: mlx_optimizers.Adafactor(RATE, relative_step=False, weight_decay=0.1), None),
    "adafactor_relative": (
        {"name": "adafactor", "relative_step": True, "beta1": 0.9},
        lambda: mlx_optimizers.Adafactor(beta_1=0.9), None),
    "muon": ({"name": "muon"}, lambda: mlx_optimizers.Muon(RATE), None),
    "muon_plain": ({"name": "muon", "no_nesterov": True, "weight_decay": -1},
                   lambda: mlx_optimizers.Muon(RATE, nesterov=False, weight_decay=0), None),
}


def make_optimizers():
    random = np.random.default_rng(5)
    shapes = [(3, 5), (6, 2), (4,)]
    tensors = {f"init.{i}": random.normal(size=s).astype(np.float32) for i, s in enumerate(shapes)}
    for step in range(STEPS):
        for i, s in enumerate(shapes):
            tensors[f"grad.{step}.{i}"] = random.normal(size=s).astype(np.float32)
    for name, (_, make, make_torch) in CASES.items():
        optimizer = make()
        values = {str(i): mx.array(tensors[f"init.{i}"]) for i in range(len(shapes))}
        for step in range(STEPS):
            grads = {str(i): mx.array(tensors[f"grad.{step}.{i}"]) for i in range(len(shapes))}
            values = optimizer.apply_gradients(grads, values)
        for i in range(len(shapes)):
            tensors[f"{name}.{i}"] = np.array(values[str(i)])
        if not make_torch:
            continue
        params = [torch.tensor(tensors[f"init.{i}"], requires_grad=True) for i in range(len(shapes))]
        optimizer = make_torch(params)
        for step in range(STEPS):
            for i, p in enumerate(params):
                p.grad = torch.tensor(tensors[f"grad.{step}.{i}"])
            optimizer.step()
        for i, p in enumerate(params):
            difference = np.abs(p.detach().numpy() - tensors[f"{name}.{i}"]).max()
            assert difference < 2e-6, (name, i, difference)
    facts = {"learning_rate": RATE, "steps": STEPS,
             "cases": {name: options for name, (options, _, _) in CASES.items()}}
    save("optimizers", tensors, facts)


def base_model():
    return AutoModelForCausalLM.from_pretrained(
        FIXTURES / "models/qwen3_tied", dtype=torch.float32, attn_implementation="eager")


def factors():
    golden = load_file(FIXTURES / "train/lora_qwen3/golden.safetensors")
    return {k[5:]: torch.tensor(v, requires_grad=True)
            for k, v in golden.items() if k.startswith("init.")}


def with_factors(model, params):
    """The model as a function, with W + scale (A B)^T in the place of W."""
    weights = dict(model.named_parameters())
    for name in params:
        if name.endswith(".lora_a"):
            module = name[:-7]
            product = SCALE * (params[name] @ params[module + ".lora_b"]).T
            weights[module + ".weight"] = weights[module + ".weight"].detach() + product
    return lambda **kwargs: torch.func.functional_call(model, weights, (), kwargs)


def log_probs(call, ids, mask):
    """Log-probabilities of the next tokens that the mask has; 0 elsewhere."""
    logits = call(input_ids=ids, use_cache=False).logits[:, :-1]
    picked = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    return picked * mask


class Metrics(dict):
    def __missing__(self, key):
        self[key] = Metrics()
        return self[key]

    def append(self, value):
        pass


def trl_dpo(policy, reference, ids, mask):
    """The loss of trl's trainer, of a batch that it is given as its collator would."""
    completion = torch.cat([torch.zeros(len(ids), 1), mask], 1).long()
    ref = reference.sum(1).chunk(2)

    class Model:
        training = True

        def __call__(self, **kwargs):
            zeros = torch.zeros_like(policy)
            return types.SimpleNamespace(log_probs=policy, entropy=zeros, mean_logits=zeros,
                                         is_top1=zeros.bool())

    class Accelerator:
        device = torch.device("cpu")

        @staticmethod
        def gather(x):
            return x

        gather_for_metrics = gather

    fake = types.SimpleNamespace(
        model=Model(), accelerator=Accelerator(), aux_loss_enabled=False, ld_alpha=None,
        precompute_ref_logps=True, f_divergence_type="reverse_kl", loss_types=["sigmoid"],
        loss_weights=[1.0], beta=BETA, label_smoothing=0.0, use_weighting=False,
        _metrics=Metrics(), _total_train_tokens=0, _tp_size=1)
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids),
              "completion_mask": completion, "ref_chosen_logps": ref[0].detach(),
              "ref_rejected_logps": ref[1].detach()}
    return DPOTrainer._compute_loss(fake, fake.model, inputs, False)


def make_preferences():
    random = np.random.default_rng(6)
    model = base_model()
    model.requires_grad_(False)
    ids = torch.tensor(random.integers(0, model.config.vocab_size, (4, LENGTH)))
    mask = torch.zeros(4, LENGTH - 1)
    for row, (first, end) in enumerate([(4, 18), (6, 15), (4, 12), (6, 17)]):
        mask[row, first:end] = 1
    tensors = {"ids": ids.numpy().astype(np.int32), "mask": mask.numpy()}
    facts = {"beta": BETA, "scale": SCALE, "rank": RANK}

    params = factors()
    with torch.no_grad():
        reference = log_probs(model, ids, mask)
    loss = trl_dpo(log_probs(with_factors(model, params), ids, mask), reference, ids, mask)
    loss.backward()
    facts["dpo_loss"] = loss.item()
    tensors |= {f"dpo.grad.{k}": v.grad.numpy() for k, v in params.items()}

    params = factors()
    logs = log_probs(with_factors(model, params), ids, mask)
    means = logs.sum(1) / mask.sum(1)
    fake = types.SimpleNamespace(
        beta=BETA, accelerator=types.SimpleNamespace(device=torch.device("cpu")))
    preferred = ORPOTrainer.odds_ratio_loss(fake, means[:2], means[2:])[0]
    nll = -logs[:2].sum() / mask[:2].sum()
    loss = nll - preferred.mean()
    loss.backward()
    facts["orpo_loss"] = loss.item()
    tensors |= {f"orpo.grad.{k}": v.grad.numpy() for k, v in params.items()}

    params = factors()
    layers = sorted({int(k.split(".")[2]) for k in params})
    targets = sorted({k.split(".")[-2] for k in params})
    dora = get_peft_model(base_model(), LoraConfig(
        r=RANK, lora_alpha=SCALE * RANK, target_modules=targets, layers_to_transform=layers,
        use_dora=True, task_type="CAUSAL_LM"))
    named = dict(dora.named_parameters())
    for k, v in params.items():
        module, half = k.rsplit(".", 1)
        part = "A" if half == "lora_a" else "B"
        named[f"base_model.model.{module}.lora_{part}.default.weight"].data.copy_(v.detach().T)
    logs = log_probs(dora, ids[:2], mask[:2])
    loss = -logs.sum() / mask[:2].sum()
    loss.backward()
    facts["dora_loss"] = loss.item()
    for k in params:
        module, half = k.rsplit(".", 1)
        part = "A" if half == "lora_a" else "B"
        grad = named[f"base_model.model.{module}.lora_{part}.default.weight"].grad
        tensors[f"dora.grad.{k}"] = grad.T.numpy()
        magnitude = f"base_model.model.{module}.lora_magnitude_vector.default.weight"
        tensors[f"dora.grad.{module}.m"] = named[magnitude].grad.numpy()
    save("preferences", tensors, facts)
    print(facts)


# Seconds, step, and scalars of each event.
EVENTS = [(1700000001.5, 0, {"loss/valid": 3.25}),
          (1700000002.25, 300, {"loss/train": 1.1, "learning_rate": 1e-5, "grad_norm": 123456.0,
                                "tokens_per_second": 0.0})]


def make_events():
    path = FIXTURES / "tune/events.tfevents"
    writer = RecordWriter(open(path, "wb"))
    writer.write(event_pb2.Event(wall_time=1700000000.0,
                                 file_version="brain.Event:2").SerializeToString())
    for seconds, step, scalars in EVENTS:
        values = [summary_pb2.Summary.Value(tag=k, simple_value=v) for k, v in scalars.items()]
        event = event_pb2.Event(wall_time=seconds, step=step,
                                summary=summary_pb2.Summary(value=values))
        writer.write(event.SerializeToString())
    writer.close()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(path, folder + "/events.out.tfevents.1.host")
        read = EventAccumulator(folder).Reload()
        for seconds, step, scalars in EVENTS:
            for tag, value in scalars.items():
                found = read.Scalars(tag)[0]
                assert (found.wall_time, found.step) == (seconds, step), tag
                assert found.value == np.float32(value), tag
    update_manifest("tune/events.tfevents")


if __name__ == "__main__":
    make_events()
    make_optimizers()
    make_preferences()
