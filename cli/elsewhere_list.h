/* ELSEWHERE(names, advice): commands and options of other programs that mica does not have, and
 * what to do instead. The advice ends a message: "mica: there is no command 'ls'; ...", "mica:
 * run has no option -ngl; ...". Names are separated by blanks; those of options include their
 * dashes. A row is removed when mica gets the feature. */
ELSEWHERE("server", "did you mean 'serve'?")
ELSEWHERE("download", "did you mean 'pull'?")
ELSEWHERE("create", "a model is a folder: give options such as --system when you run it")
ELSEWHERE("lora train finetune", "did you mean 'tune'?")
ELSEWHERE("quantise", "did you mean 'quantize'?")
ELSEWHERE("ls", "did you mean 'list'?")
ELSEWHERE("perplexity", "did you mean 'eval'?")
ELSEWHERE("complete", "did you mean 'generate'?")
ELSEWHERE("cp", "a model is a folder: copy it, or name it by --name when you serve it")

ELSEWHERE("-ngl --gpu-layers --n-gpu-layers -mg --main-gpu -sm --split-mode -ts --tensor-split",
          "leave it out: mica computes all layers on the CPU")
ELSEWHERE("--lora --lora-scaled", "did you mean --adapter, a folder of mlx-lm or PEFT?")
ELSEWHERE("-mu --model-url", "did you mean --model? It takes the name of a repository, ORG/NAME")
ELSEWHERE("-cnv --conversation -i --interactive", "did you mean mica chat?")
ELSEWHERE("-st --single-turn", "leave it out: mica run answers once")
ELSEWHERE("--no-display-prompt --simple-io --color -co",
          "leave it out: only the answer is written to standard output")
ELSEWHERE("-no-cnv --no-conversation --ignore-chat-template", "did you mean mica generate?")
ELSEWHERE("-fa --flash-attn",
          "leave it out: mica always computes attention without storing all scores")
ELSEWHERE("-ctk -ctv --cache-type-k --cache-type-v --kv-cache-dtype",
          "did you mean --cache, the type of both?")
ELSEWHERE("--jinja", "leave it out: mica always uses the model's chat template")
ELSEWHERE("--chat-template-kwargs --chat-template-config --chat-template-args "
          "--default-chat-template-kwargs",
          "did you mean --variable NAME=VALUE? Requests to a server have chat_template_kwargs")
ELSEWHERE("--prompt-cache --prompt-cache-file", "did you mean mica chat --session?")
ELSEWHERE("--trust-remote-code", "leave it out: mica never runs code that comes with a model")
ELSEWHERE("--grammar --grammar-file --json-schema --json-schema-file --format",
          "run, generate, chat and batch have --json-schema, --grammar and the like; requests to a "
          "server have response_format, or ollama's format")
ELSEWHERE("--xtc-probability --xtc-threshold --mirostat --typical",
          "mica does not have this sampler yet: --min-p and --top-p are similar")
ELSEWHERE("--keepalive", "leave it out: commands keep no model loaded; mica serve has --keep-alive")

ELSEWHERE("--metrics --slots --no-slots --props",
          "leave it out: /metrics and /api/ps are always there")
ELSEWHERE("--embedding --embeddings --pooling --rerank --reranking --runner --task",
          "leave it out: every model has /v1/embeddings, /v1/rerank and /v1/score")
ELSEWHERE("-cb --cont-batching --cache-prompt --cache-reuse --enable-prefix-caching "
          "--enable-chunked-prefill --async-scheduling",
          "leave it out: mica serve always does that")
ELSEWHERE("--enable-auto-tool-choice --tool-call-parser --reasoning-parser --reasoning-format "
          "--enable-reasoning --chat-template-content-format",
          "leave it out: mica tells tool calls and thoughts by the model's chat template")
ELSEWHERE("--slot-save-path", "did you mean --prefix-cache FOLDER?")
ELSEWHERE("--prompt-cache-size --prompt-cache-bytes --gpu-memory-utilization --swap-space "
          "--cpu-offload-gb --cache-ram -cram",
          "did you mean --cache-memory, or --model-memory with the weights? Both are in MiB")
ELSEWHERE("--tensor-parallel-size --pipeline-parallel-size --data-parallel-size",
          "leave it out: a server has one device; docs/serve.md says how to run several")
ELSEWHERE("--dtype --quantization --enforce-eager --load-format --tokenizer --tokenizer-mode",
          "leave it out: a model is computed as its folder says; mica convert makes others")
ELSEWHERE("--enable-lora --max-loras --max-lora-rank", "did you mean --adapter NAME=FOLDER?")
ELSEWHERE("--uds", "did you mean --host unix:PATH?")
ELSEWHERE("--allowed-origins --allow-credentials", "did you mean --cors ORIGIN?")
ELSEWHERE("--timeout", "did you mean --max-seconds, of each request?")
ELSEWHERE("--threads-http", "leave it out: connections take no threads of their own")
ELSEWHERE("--log-level --uvicorn-log-level --log-requests --enable-log-requests",
          "did you mean --log, a line for each request?")
ELSEWHERE("--log-disable --disable-log-requests --disable-log-stats",
          "leave it out: requests are logged with --log alone")
ELSEWHERE("--models-dir", "did you mean the variable MICA_MODELS, a folder of models?")
ELSEWHERE("--sleep-idle-seconds", "did you mean --keep-alive?")
ELSEWHERE("--api-prefix --root-path", "leave it out: a proxy takes a prefix off")
