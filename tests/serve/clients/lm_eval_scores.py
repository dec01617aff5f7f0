#!/usr/bin/env python3
"""lm-eval's local-completions: its log-likelihoods are those of `mica score`.

   lm_eval_scores.py MICA FOLDER

The task is made here; nothing comes from a network.
"""
import json
import os
import tempfile

from serving import FOLDER, MODEL, find, run, served

WORK = tempfile.TemporaryDirectory()
os.environ.update(HF_HOME=WORK.name, HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1",
                  TOKENIZERS_PARALLELISM="false", TQDM_DISABLE="1", PYTHONPATH=FOLDER)
find("lm_eval")
import lm_eval
import lm_eval.tasks

QUESTIONS = [
    {"text": "curl is a", "choices": [" command line tool", " wolf that sings"], "label": 0},
    {"text": "The sea is", "choices": [" curl", " wide"], "label": 1},
    {"text": "One two", "choices": [" three", " seven"], "label": 0},
]
TASK = """
task: tiny
dataset_path: json
dataset_kwargs: {data_files: {test: DATA}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{text}}"
doc_to_choice: "{{choices}}"
doc_to_target: label
target_delimiter: ""
metric_list: [{metric: acc, aggregation: mean, higher_is_better: true}]
"""


def score(text):
    """ln P(text)"""
    return json.loads(run("score", "--json", "--model", MODEL, text))["log_probability"]


def evaluate(address):
    with open(WORK.name + "/data.jsonl", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in QUESTIONS)
    with open(WORK.name + "/tiny.yaml", "w", encoding="utf-8") as file:
        file.write(TASK.replace("DATA", WORK.name + "/data.jsonl"))
    tasks = lm_eval.tasks.TaskManager(include_path=WORK.name, include_defaults=False)
    # mica score puts the tokenizer's <bos> before a text.
    options = {"model": "default", "base_url": address + "/v1/completions", "tokenizer": MODEL,
               "tokenizer_backend": "huggingface", "add_bos_token": True, "num_concurrent": 2}
    return lm_eval.simple_evaluate(model="local-completions", model_args=options, tasks=["tiny"],
                                   task_manager=tasks, batch_size=2, bootstrap_iters=0)


def check_tokenizer(address):
    """lm-eval's remote tokenizer is the one that transformers makes of the folder."""
    import transformers
    from lm_eval.utils import RemoteTokenizer
    remote = RemoteTokenizer(address + "/v1/completions")
    own = transformers.AutoTokenizer.from_pretrained(MODEL)
    text = "curl is a command line tool."
    assert remote.encode(text) == own.encode(text, add_special_tokens=False)
    assert remote.decode(remote.encode(text)) == text
    for name in ("bos_token", "eos_token", "pad_token", "bos_token_id", "eos_token_id"):
        assert getattr(remote, name) == getattr(own, name), name
    # It renders templates without their special tokens, which the model's own needs.
    assert remote.tokenizer_info["chat_template"] == own.chat_template


def main():
    with served() as address:
        check_tokenizer(address)
        result = evaluate(address)
    samples = result["samples"]["tiny"]
    assert len(samples) == len(QUESTIONS)
    right = 0
    for sample in samples:
        question = sample["doc"]
        context = score(question["text"])
        ours = [score(question["text"] + choice) - context for choice in question["choices"]]
        theirs = [answer[0] for answer in sample["filtered_resps"]]
        assert all(abs(a - b) < 1e-4 for a, b in zip(ours, theirs)), (question, ours, theirs)
        right += ours.index(max(ours)) == question["label"]
    assert result["results"]["tiny"]["acc,none"] == right / len(QUESTIONS), result["results"]
    # What the model answers is what it finds likeliest.
    assert samples[0]["filtered_resps"][0][1] is True, samples[0]
    print("lm_eval", lm_eval.__version__, "passed")


main()
