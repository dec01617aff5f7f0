#!/usr/bin/env python3
"""Answers a file of chats by Ray Data's HTTP processor and servers that run already: replicas of
`mica serve` behind a proxy.

    ray_http.py http://HOST:PORT PROMPTS ANSWERS

Prompts are requests of OpenAI's batches: {"custom_id", "url", "body"}. A request that fails, as one
that a replica was writing when it was killed, is sent again.
"""
import json
import os
import sys

import ray
from ray.data.llm import HttpRequestProcessorConfig, build_processor


def request(row):
    asked = json.loads(row["text"])
    return {"custom_id": asked["custom_id"], "payload": asked["body"]}


def answer(row):
    return {"answer": json.dumps({"custom_id": row["custom_id"], "error": None, "response": {
        "status_code": 200, "body": row["http_response"]}})}


def main(address, prompts, answers):
    key = os.environ.get("MICA_API_KEY")
    config = HttpRequestProcessorConfig(
        url=address + "/v1/chat/completions", batch_size=16, concurrency=2, max_retries=20,
        base_retry_wait_time_in_s=0.2, headers={"Authorization": "Bearer " + key} if key else {})
    process = build_processor(config, preprocess=request, postprocess=answer)
    with open(answers + ".part", "w", encoding="utf-8") as file:
        for row in process(ray.data.read_text(os.path.abspath(prompts))).iter_rows():
            file.write(row["answer"] + "\n")
    os.replace(answers + ".part", answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
