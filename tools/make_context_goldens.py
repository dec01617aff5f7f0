#!/usr/bin/env python3
"""Makes tests/fixtures/context: what mlx-lm answers once a text is longer than its --max-kv-size.

    python3 tools/make_context_goldens.py      (needs the Python packages mlx and mlx-lm; made with
                                                mlx 0.32.4 on a CPU and mlx-lm 0.32.2)

Each case is a model of tests/fixtures/models with a context. A layer without a window of its own
has the cache that mlx-lm makes for --max-kv-size, RotatingKVCache(max_size=context, keep=4): a
token sees the first 4 and the last context - 4, its own among them, and rope is not applied anew
to keys as entries before them are dropped. A layer with a window has
RotatingKVCache(max_size=window), as mlx-lm always gives it. The caches are made here, since
mlx-lm 0.32 ignores --max-kv-size for llama and gemma3, whose classes make their own.

That holds where tokens are computed one by one. Of several at once mlx-lm hides the first 4 from
all but the first few, so that an answer depends on the size of the steps: prompts that are longer
than the context are computed here token by token (--prefill-step-size 1).
"""
import hashlib
import json
import pathlib
import shutil

import mlx.core as mx
import mlx_lm
from mlx_lm.generate import generate_step
from mlx_lm.models.cache import RotatingKVCache
from mlx_lm.utils import load_model

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures"
CASES = [("llama_untied_f32", 16), ("qwen3_tied", 16), ("q4g64_qwen3", 21), ("gemma3_text_f32", 24)]
PROMPTS = [(7, 48, 512), (41, 24, 1), (700, 8, 1)]  # ids, tokens of the answer, --prefill-step-size
KEEP, LEAST_MARGIN = 4, 0.02


def make_cache(model, config, context):
    pattern = config.get("sliding_window_pattern")
    return [
        RotatingKVCache(max_size=config["sliding_window"])
        if pattern and i % pattern != pattern - 1
        else RotatingKVCache(max_size=context, keep=KEEP)
        for i in range(len(model.layers))
    ]


def answer(model, cache, ids, count, step):
    """Greedy tokens, the logits that they were taken from, and the least lead of a best one."""
    rows = []
    keep_row = lambda tokens, logits: rows.append(logits[0]) or logits
    tokens = [
        token
        for token, _ in generate_step(mx.array(ids), model, max_tokens=count, prompt_cache=cache,
                                      prefill_step_size=step, logits_processors=[keep_row])
    ]
    rows = mx.stack(rows[:count])
    best = mx.sort(rows, axis=-1)[:, -2:]
    return tokens, rows, float((best[:, 1] - best[:, 0]).min())


def make_prompt(model, config, context, index, seed):
    """The first prompt of random ids whose answer no rounding error can change."""
    length, count, step = PROMPTS[index]
    while True:
        mx.random.seed(seed)
        ids = mx.random.randint(2, config["vocab_size"], (length,)).tolist()
        cache = make_cache(model, config, context)
        tokens, rows, margin = answer(model, cache, ids, count, step)
        if margin >= LEAST_MARGIN:
            return ids, tokens, rows, margin
        seed += 1


def make_case(base, context):
    folder = FIXTURES / "context" / base
    folder.mkdir(parents=True)
    model, config = load_model(FIXTURES / "models" / base)
    model.set_dtype(mx.float32)
    tensors, margins = {}, []
    for i in range(len(PROMPTS)):
        ids, tokens, rows, margin = make_prompt(model, config, context, i, 100 * i)
        tensors[f"prompt{i}.ids"] = mx.array(ids, mx.int32)
        tensors[f"prompt{i}.greedy"] = mx.array(tokens, mx.int32)
        tensors[f"prompt{i}.greedy_logits"] = rows.astype(mx.float32)
        margins.append(round(margin, 4))
    mx.save_safetensors(str(folder / "golden.safetensors"), tensors)
    golden = dict(base=f"models/{base}", context=context, keep=KEEP, tolerance=0.001,
                  margins=margins, mlx=mx.__version__, mlx_lm=mlx_lm.__version__)
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")


def update_manifest():
    path = FIXTURES / "MANIFEST.sha256"
    rows = dict(line.split("  ")[::-1] for line in path.read_text().splitlines())
    rows = {name: digest for name, digest in rows.items() if not name.startswith("context/")}
    for file in sorted(FIXTURES.glob("context/*/*")) + [FIXTURES / "README.md"]:
        rows[str(file.relative_to(FIXTURES))] = hashlib.sha256(file.read_bytes()).hexdigest()
    path.write_text("".join(f"{rows[name]}  {name}\n" for name in sorted(rows)))


if __name__ == "__main__":
    mx.set_default_device(mx.cpu)
    shutil.rmtree(FIXTURES / "context", ignore_errors=True)
    for case in CASES:
        make_case(*case)
    update_manifest()
