/* Commands and options of other programs that mica does not have. Names are separated by blanks;
 * those of options include their dashes, and one that ends in * stands for all that begin so. The
 * first row that lists a name counts; --no-NAME counts as --NAME. A row is removed when mica gets
 * the feature.
 *
 * ELSEWHERE(names, advice): what to do instead. The advice ends a message: "mica: there is no
 * command 'ls'; ...", "mica: run has no option --mirostat; ...".
 *
 * LEFT_OUT(value, names, why): options that change no answer, such as where and how fast it is
 * computed. They are taken, and told: "mica: -ngl is left out: ...". `value` is NO, YES, or MAY if
 * on, off and the like may follow. */
ELSEWHERE("server start llama-server", "did you mean 'serve'?")
ELSEWHERE("download", "did you mean 'pull'?")
ELSEWHERE("create", "a model is a folder: give options such as --system when you run it")
ELSEWHERE("lora train finetune", "did you mean 'tune'?")
ELSEWHERE("quantise llama-quantize awq dwq gptq dynamic_quant",
          "did you mean 'quantize'? With --calibrate it chooses the bits of each layer")
ELSEWHERE("imatrix llama-imatrix", "did you mean 'quantize --calibrate FILE'?")
ELSEWHERE("ls", "did you mean 'list'?")
ELSEWHERE("info inspect", "did you mean 'show'?")
ELSEWHERE("remove delete", "did you mean 'rm'?")
ELSEWHERE("scan-cache", "did you mean 'list'?")
ELSEWHERE("status", "did you mean 'ps'?")
ELSEWHERE("merge", "did you mean 'fuse', or 'convert'?")
ELSEWHERE("manage", "did you mean 'list', 'rm' or 'gc'?")
ELSEWHERE("perplexity evaluate llama-perplexity", "did you mean 'eval'?")
ELSEWHERE("complete completion llama-completion", "did you mean 'generate'?")
ELSEWHERE("llama-cli cli", "did you mean 'run' or 'chat'?")
ELSEWHERE("benchmark llama-bench batched-bench", "did you mean 'bench'?")
ELSEWHERE("run-batch", "did you mean 'batch'?")
ELSEWHERE("embedding llama-embedding", "did you mean 'embed'?")
ELSEWHERE("llama-tokenize", "did you mean 'tokenize'?")
ELSEWHERE("gguf-split llama-gguf-split convert_hf_to_gguf.py", "did you mean 'convert'?")
ELSEWHERE("export-lora", "did you mean 'fuse'?")
ELSEWHERE("cache_prompt", "did you mean 'chat --session FILE'? It keeps the caches beside it")
ELSEWHERE("collect-env", "did you mean 'version' or 'devices'?")
ELSEWHERE("cp copy", "a model is a folder: copy it, or name it by --name when you serve it")
ELSEWHERE("push upload share", "mica uploads nothing: the command hf of huggingface_hub does")
ELSEWHERE("login logout signin signout", "set HF_TOKEN to a token of the hub: mica help pull")
ELSEWHERE("launch", "mica starts no other programs: have them ask mica serve (docs/serve.md)")

LEFT_OUT(YES,
         "--gpu-layers* --n-gpu-layers* -mg --main-gpu -sm --split-mode -ts --tensor-split "
         "-dev -devd --device-draft -ot --override-tensor* -otd -ncmoe -ncmoed --n-cpu-moe* -ncffn "
         "--n-cpu-ffn -ngld --rpc -rpc -fit --fit --fit-* -fitt -fitc --spec-draft-ngl "
         "--spec-draft-device --spec-draft-override-tensor --spec-draft-n-cpu-moe "
         "--spec-draft-ncmoe",
         "--device says what computes layers, and --gpu-layers how many of them")
LEFT_OUT(NO,
         "-kvo --kv-offload -nkvo --op-offload -nopo --repack -nr --host -cmoe --cpu-moe -cmoed "
         "--cpu-moe-draft --spec-draft-cpu-moe",
         "--device says what computes layers, and --gpu-layers how many of them")
LEFT_OUT(MAY, "-fa --flash-attn", "attention is always computed without storing all scores")
LEFT_OUT(YES,
         "-tb --threads-batch -C -Cr -Cb -Crb -Cd -Crd -Cbd -Crbd --cpu-mask* --cpu-range* "
         "--cpu-strict* --prio* --poll --poll-* --numa -td -tbd --threads-draft "
         "--threads-batch-draft --spec-draft-threads* --spec-draft-cpu-mask* "
         "--spec-draft-cpu-range* --spec-draft-cpu-strict* --spec-draft-prio* --spec-draft-poll*",
         "--threads counts the threads of all work, and the system places them")
LEFT_OUT(NO, "--warmup", "there is no warm-up before the prompt")
LEFT_OUT(NO, "--perf --show-timings --verbose-prompt --progress -v",
         "rates are printed unless --quiet, more with --verbose")
LEFT_OUT(NO, "--check-tensors", "what files say of their tensors is always checked")
LEFT_OUT(NO, "--no-escape", "prompts are always read as they are")
LEFT_OUT(NO, "--swa-full -kvu --kv-unified -no-kvu --cache-idle-slots",
         "caches always hold what the model's layers look back to")
LEFT_OUT(YES,
         "-dt --defrag-thold -ctxcp --ctx-checkpoints --swa-checkpoints -cms "
         "--checkpoint-min-step --kv-unified-per-slot",
         "caches always hold what the model's layers look back to")
LEFT_OUT(NO, "--context-shift",
         "a prompt that is too long is an error without --truncate or --context")
LEFT_OUT(YES, "--keep", "a chat never forgets its system message")
LEFT_OUT(NO, "--no-display-prompt --simple-io", "only the answer is written to standard output")
LEFT_OUT(MAY, "-co --color --log-colors", "colours follow the terminal and NO_COLOR")
LEFT_OUT(NO, "--jinja", "the model's chat template is always used")
LEFT_OUT(NO, "--use-default-chat-template", "a model without a template gets its family's")
LEFT_OUT(NO, "--trust-remote-code", "mica never runs code that comes with a model")
LEFT_OUT(YES, "--keepalive", "commands keep no model loaded; mica serve has --keep-alive")
LEFT_OUT(NO, "-mli --multiline-input", "a line that ends in \\ always goes on")
LEFT_OUT(YES, "--clear-cache-threshold", "memory that training needs no more is always given back")
LEFT_OUT(NO, "-qa --quantize-activations",
         "activations are in int8 for quantised weights, unless --arithmetic exact")
LEFT_OUT(YES, "--delay", "runs follow each other at once")
LEFT_OUT(YES, "--quantized-kv-start --kv-group-size",
         "--cache int8 has a scale for each 32 values, from the first token on")

LEFT_OUT(NO, "-dio --direct-io", "files are mapped, or read once with --no-mmap")
LEFT_OUT(NO, "--use-temp-file --lazy", "weights are read one after another, as they are written")

ELSEWHERE("--lora-layers", "did you mean --num-layers?")
ELSEWHERE("--use-dora", "did you mean --fine-tune-type dora?")
ELSEWHERE("--lr-schedule --optimizer-config --lora-parameters --hf-dataset",
          "did you mean a key of --config FILE?")
ELSEWHERE("--outfile", "did you mean --output FILE.gguf?")
ELSEWHERE("--outtype", "did you mean --dtype, or mica quantize?")
ELSEWHERE("--vocab-only --bigendian", "mica writes whole models, and little-endian files")
ELSEWHERE("--model-name --metadata", "a model is named where it is served: mica serve --name")
ELSEWHERE("--remote", "name the model ORG/NAME: it is downloaded, if you want that")
ELSEWHERE("--mistral-format --sentence-transformers-dense-modules",
          "leave it out: a folder in the layout of Hugging Face says what it holds")
ELSEWHERE("--input-file", "name the file without an option: mica batch FILE")
ELSEWHERE("--num-prompts --request-rate --max-concurrency --dataset-* --endpoint --backend "
          "--input-len --output-len --random-*",
          "mica bench measures a model without a server; --prompt and --generate are lengths")
ELSEWHERE("--local-dir", "did you mean --cache-dir FOLDER?")
ELSEWHERE("--max-workers", "did you mean --connections?")
ELSEWHERE("--force-download", "leave it out: the checksum of every file is checked")
ELSEWHERE("--repo-type", "leave it out: mica pull downloads models only")
ELSEWHERE("--experimental*", "mica run calls no tools; programs that ask mica serve may")
ELSEWHERE("--lora --lora-scaled", "did you mean --adapter, a folder of mlx-lm or PEFT?")
ELSEWHERE("--lora-init-without-apply", "leave --adapter out")
ELSEWHERE("-mu --model-url -dr --docker-repo -hff --hf-file",
          "did you mean --model? It takes the name of a repository, ORG/NAME")
ELSEWHERE("-hft --hf-token --token", "set HF_TOKEN in the environment: mica help pull")
ELSEWHERE("--offline", "set HF_HUB_OFFLINE=1 in the environment")
ELSEWHERE("--insecure", "a hub is asked over HTTPS; HF_ENDPOINT names another hub: mica help pull")
ELSEWHERE("--revision --code-revision --tokenizer-revision",
          "name the model ORG/NAME@REVISION: mica help pull")
ELSEWHERE("--download-dir", "set HF_HUB_CACHE, or mica pull --cache-dir FOLDER")
ELSEWHERE("--ignore-patterns", "did you mean mica pull --include PATTERN?")
ELSEWHERE("-cl --cache-list", "did you mean mica list?")
ELSEWHERE("--list-devices", "did you mean mica devices?")
ELSEWHERE("--completion-bash", "did you mean mica completions bash?")
ELSEWHERE("--usage", "did you mean --help?")
ELSEWHERE("--version", "did you mean mica version?")
ELSEWHERE("-cnv --conversation -i --interactive -if --interactive-first", "did you mean mica chat?")
ELSEWHERE("-st --single-turn", "leave it out: mica run answers once")
ELSEWHERE("-no-cnv --no-conversation --ignore-chat-template", "did you mean mica generate?")
ELSEWHERE("--no-jinja --in-prefix* --in-suffix --skip-chat-parsing --cls-separator",
          "did you mean --chat-template, or mica generate, which uses none?")
ELSEWHERE("-e --escape", "prompts are read as they are: $'a\\nb' of a shell, or --file")
ELSEWHERE("-sysf --system-prompt-file",
          "did you mean --system? A shell gives it a file: $(cat FILE)")
ELSEWHERE("-bf --binary-file", "did you mean --file?")
ELSEWHERE("--server-base", "mica asks no server: mica run computes by itself")
ELSEWHERE("-ptc --print-token-count", "did you mean --json, or mica tokenize?")
ELSEWHERE("-sp --special", "did you mean --logprobs 1? It prints each token, special ones, too")
ELSEWHERE("-o --output --output-file -oe --output-err",
          "did you mean > FILE of the shell, or --json?")
ELSEWHERE("-ctk -ctv -ctkd -ctvd --cache-type-k* --cache-type-v* --kv-cache-dtype* "
          "--spec-draft-type-k --spec-draft-type-v",
          "did you mean --cache, the type of both?")
ELSEWHERE("--chat-template-kwargs --chat-template-config --chat-template-args "
          "--default-chat-template-kwargs",
          "did you mean --variable NAME=VALUE? Requests to a server have chat_template_kwargs")
ELSEWHERE("--apply-chat-template", "did you mean mica run?")
ELSEWHERE("--prompt-cache --prompt-cache-file --prompt-cache-all --prompt-cache-ro",
          "did you mean mica chat --session FILE? It keeps the caches beside it")
ELSEWHERE("--grammar --grammar-file --json-schema --json-schema-file --format -j -jf",
          "run, generate, chat and batch have --json-schema, --grammar and the like; requests to a "
          "server have response_format, or ollama's format")
ELSEWHERE("--structured-outputs-config --guided-decoding-backend",
          "leave it out: mica has one way to compile schemas and grammars (docs/structured.md)")
ELSEWHERE("--samplers --sampler-seq --sampling-seq --backend-sampling -bs",
          "leave it out: the order is fixed: penalties, top-p, min-p, top-k, temperature")
ELSEWHERE("--xtc-probability --xtc-threshold --mirostat* --typical* --top-nsigma --top-n-sigma "
          "--dry-* --dynatemp-* --adaptive-*",
          "mica does not have this sampler yet: --min-p and --top-p are similar")
ELSEWHERE("--min-tokens-to-keep",
          "leave it out: --top-p and --min-p always keep the likeliest token")
ELSEWHERE("--generation-config --override-generation-config",
          "did you mean options such as --temperature? A request may have its own values")
ELSEWHERE("--hidethinking --reasoning-budget-message --reasoning-preserve",
          "thoughts are printed as a part of the answer; --no-think asks for none, and mica serve "
          "tells them apart")
ELSEWHERE("--dimensions", "did you mean mica embed --dimensions?")
ELSEWHERE("--license --modelfile --parameters --template",
          "mica show FOLDER prints what mica uses; the rest are files of that folder")
ELSEWHERE("--rope-* --yarn-* -gan --grp-attn-n -gaw --grp-attn-w --hf-overrides --hf-config-path",
          "leave it out: config.json says it (rope_theta, rope_scaling); edit a copy of the folder")
ELSEWHERE("--override-kv", "leave it out: edit a copy of the folder's config.json")
ELSEWHERE("--control-vector*", "mica has no control vectors: an adapter may do, mica help tune")
ELSEWHERE(
    "-mm -mmu --mmproj* --image* --audio* --video* --mm-* --mtmd-* --media-* "
    "--limit-mm-per-prompt --interleave-mm-strings --skip-mm-profiling --allowed-local-media* "
    "--allowed-media-domains --enable-mm-* --disable-chunked-mm-input --default-mm-loras "
    "--language-model-only --renderer-num-workers --vision-* --enable-tower-connector-lora",
    "mica runs text models only: leave pictures and sounds out")
ELSEWHERE("--log-file --log-jsonl --log-prefix --log-timestamps --log-prompts-dir "
          "--log-config-file --logging-config --aggregate-engine-logging",
          "did you mean 2> FILE of the shell?")
ELSEWHERE("-lv --verbosity --log-verbosity --log-verbose", "did you mean --verbose?")

LEFT_OUT(NO, "--metrics --slots --props", "these endpoints are always there, also /api/ps")
LEFT_OUT(NO, "--embedding --embeddings -embd --rerank --reranking",
         "every model has /v1/embeddings, /v1/rerank and /v1/score")
LEFT_OUT(YES, "--runner --task", "every model has /v1/embeddings, /v1/rerank and /v1/score")
LEFT_OUT(NO,
         "-cb -nocb --cont-batching --cache-prompt --enable-prefix-caching "
         "--enable-chunked-prefill --async-scheduling",
         "mica serve always does that")
LEFT_OUT(YES, "--cache-reuse -sps --sps --slot-prompt-similarity",
         "mica serve finds the longest common beginning by itself")
LEFT_OUT(NO, "--enable-auto-tool-choice --enable-reasoning",
         "mica tells tool calls and thoughts by the model's chat template")
LEFT_OUT(YES,
         "--tool-call-parser --tool-parser-plugin --reasoning-parser* "
         "--chat-template-content-format",
         "mica tells tool calls and thoughts by the model's chat template")
LEFT_OUT(YES, "--threads-http", "connections take no threads of their own")
LEFT_OUT(NO, "--log-disable --disable-log-requests --disable-log-stats",
         "requests are logged with --log alone")
LEFT_OUT(NO, "--ui --webui", "the page is a part of mica serve; who may ask it, --api-key says")
LEFT_OUT(NO, "--enforce-eager --disable-custom-all-reduce --use-tqdm-on-load --reuse-port",
         "it has no meaning here")
LEFT_OUT(YES, "--sse-ping-interval", "streams that wait are kept open")
LEFT_OUT(YES, "--max-parallel-loading-workers --safetensors-*", "weights are mapped, not copied")

ELSEWHERE("--pooling --attention --embd-* --pooler-config --embd-normalize",
          "did you mean mica embed --pooling? Requests to a server have it, too")
ELSEWHERE("--reasoning-format", "leave it out: each API has thoughts where it defines them")
ELSEWHERE("--slot-save-path", "did you mean --prefix-cache FOLDER?")
ELSEWHERE("--prompt-cache-size --prompt-cache-bytes --gpu-memory-utilization --swap-space "
          "--cpu-offload* --cache-ram -cram --kv-cache-memory-bytes --device-memory-utilization "
          "--num-gpu-blocks-override --kv-offloading-size",
          "did you mean --cache-memory, or --model-memory with the weights? Both are in MiB")
ELSEWHERE("--prompt-concurrency", "did you mean --rows, or --step-tokens of prompts at once?")
ELSEWHERE("--max-num-queued* --watermark* --scheduling-policy",
          "did you mean --queue, or --max-priority?")
ELSEWHERE(
    "--max-num-* --long-prefill-* --scheduler-* --stream-interval --prefill-schedule-interval "
    "--block-size --kv-* --prefix-* --swa-bounded-replay",
    "did you mean --rows and --step-tokens? The rest of the schedule is fixed")
ELSEWHERE("--spec-* -sc --speculative-config --draft-p-* -hfd -hfrd --hf-repo-draft --spec-default "
          "-lcs --lookup-cache-* -lcd --mtp --dflash --eagle3 --per-request-spec-decode-metrics "
          "--draft-min --draft-n-min",
          "did you mean --draft-tokens N, or --draft-model FOLDER?")
ELSEWHERE("--tensor-parallel-size --pipeline-parallel-size --data-parallel-* --pipeline "
          "-tp -pp -dp* -dcp -pcp -ep -n --nnodes -r --node-rank --master-* --distributed-* "
          "--ray-* --worker-* --numa-bind* --decode-context-* --prefill-context-* --dcp-* --cp-* "
          "--dp-* --dbo-* --enable-dbo --enable-ep* --enable-expert-* --eplb-* --expert-* "
          "--all2all-* --enable-elastic-* --elastic-* --enable-fault-* --fault-* --ubatch-size "
          "--disable-nccl-* --enable-nccl-* --device-ids --cpu-distributed-* --ec-* "
          "--weight-transfer-config --hostfile --enable-batch-sharded-sampling --enable-hc-sp "
          "--aux-output-config --api-server-count -asc --headless",
          "leave it out: mpirun -n N mica serve computes over several (docs/cluster.md), each of "
          "one device")
ELSEWHERE(
    "-ac -cc -dc -O* --compilation-config --cudagraph-* --max-cudagraph-* --optimization-level "
    "--attention-* --kernel-config --linear-backend --moe-* --gdn-* --kda-* --mamba-* "
    "--enable-mamba-* --enable-flashinfer-* --ir-op-* --monokernel --use-replayssm "
    "--replayssm-* --sparse-indexer-* --disable-cascade-attn --performance-mode "
    "--additional-config --jit-* --enable-cumem-allocator --enable-shm-* --engram-config "
    "--offload-* --sleep-mode-* --sleep-preserve-* --enable-sleep-mode --use-fp64-gumbel "
    "--diffusion-* "
    "--disable-hybrid-* --disable-sliding-window --num-lookahead-slots",
    "leave it out: mica chooses kernels and caches by the machine and the model")
ELSEWHERE("--enable-layerwise-* --collect-detailed-* --otlp-* --show-hidden-metrics* --cudagraph* "
          "--enable-mfu-* --kv-cache-metrics* --custom-histogram-* --profiler-config "
          "--enable-logging-* --watchdog-config --enable-trace-replay --fail-on-environ-validation",
          "did you mean --log, or the endpoint /metrics?")
ELSEWHERE("--dtype --quantization -q --quantization-config --load-format --tokenizer* "
          "--model-impl --model-class-overrides --model-loader-* --config-format --convert "
          "--allow-deprecated-quantization --skip-tokenizer-init --pt-load-* --io-processor-plugin "
          "--logits-processors -lm --load-mode -lzm --lazy-mode",
          "leave it out: a model is computed as its folder says; mica convert makes others")
ELSEWHERE("--enable-lora --max-loras --max-lora-* --max-cpu-loras --lora-* --fully-sharded-loras "
          "--enable-mixed-moe-* --enable-moe-shared-* --specialize-active-lora",
          "did you mean --adapter NAME=FOLDER?")
ELSEWHERE(
    "--response-role --return-tokens-as-* --enable-prompt-* --enable-force-* --enable-tokenizer-* "
    "--trust-request-* --max-logprobs --logprobs-mode --return-sampling-mask --enable-return-* "
    "--enable-prompt-embeds --reasoning-config",
    "leave it out: requests say what they want, up to what docs/serve.md lists")
ELSEWHERE("--uds", "did you mean --host unix:PATH?")
ELSEWHERE("--allowed-* --allow-credentials --cors-*", "did you mean --cors ORIGIN?")
ELSEWHERE("-to --timeout --shutdown-timeout --timeout-keep-alive",
          "did you mean --max-seconds, of each request?")
ELSEWHERE("--log-level --uvicorn-* --log-requests --enable-log-* --disable-uvicorn-* "
          "--max-log-len --disable-fastapi-docs --middleware --enable-server-load-tracking",
          "did you mean --log, a line for each request?")
ELSEWHERE("--models-dir --models-preset --models-autoload",
          "did you mean the variable MICA_MODELS, a folder of models?")
ELSEWHERE("--sleep-idle-seconds", "did you mean --keep-alive?")
ELSEWHERE("--api-prefix --root-path", "leave it out: a proxy takes a prefix off")
ELSEWHERE("--path", "leave it out: a web server can have other pages, and ask mica as a proxy")
ELSEWHERE("--ui-* --webui-* --tools* --tool-server --mcp-* -ag --agent -no-ag --tags",
          "leave it out: mica serve runs no tools and has one page; clients bring their tools")
ELSEWHERE("--prefill-assistant",
          "leave it out: docs/serve.md says which requests continue an answer")
ELSEWHERE("--spm-infill --fim-* --gpt-oss-* --embd-gemma-default",
          "did you mean --model FOLDER? docs/serve.md says what models can fill in the middle")
ELSEWHERE("--ssl-ca-certs --ssl-cert-reqs --ssl-ciphers --enable-ssl-refresh",
          "did you mean --tls-cert and --tls-key? A proxy can check clients")
ELSEWHERE("--report-to --project-name --wandb*",
          "did you mean --log FILE, or --tensorboard FOLDER?")
ELSEWHERE("--train-yaml", "did you mean --config FILE?")
ELSEWHERE("--export-gguf --gguf-path",
          "mica fuse makes a folder; then mica convert FOLDER FILE.gguf")
ELSEWHERE("--upload-repo", "mica uploads nothing: the command hf of huggingface_hub does")
ELSEWHERE("--allow-requantize --leave-output-tensor --pure --imatrix --include-weights "
          "--exclude-weights --output-tensor-type --token-embedding-type --tensor-type* "
          "--prune-layers --keep-split --dry-run --embed-bits --embed-group-size --n-grid "
          "--low-* --high-* --fallback-* --sensitivities --target-bpw --report-ppl "
          "--accumulation-dtype --num-samples --quantized-model --target-dir --targets-only "
          "--max-buffer-size",
          "did you mean --recipe, or --calibrate FILE with --target-bits?")
ELSEWHERE("--split* --merge --delete-splits --no-tensor-first-split", "did you mean --shard-size?")
ELSEWHERE("--tasks --num-shots --limit --fewshot-as-multiturn --output-dir "
          "--confirm-run-unsafe-code --hellaswag* --winogrande* --multiple-choice* --chunks "
          "--ppl-* --chunk --from-chunk",
          "mica eval measures the perplexity of a text; harnesses of tasks can ask mica serve")
ELSEWHERE("--kl-divergence* --save-all-logits", "did you mean mica eval --reference MODEL?")
ELSEWHERE("--data-path --sequence-length", "did you mean --file, or --window?")
ELSEWHERE("-d --n-depth -pg --n-prompt --prompt-tokens",
          "did you mean --prompt, --generate and --repeat?")
ELSEWHERE("--stdin", "leave it out: a text that is missing is read from standard input")
ELSEWHERE("--no-bos --no-parse-special --show-count", "did you mean --ids? wc -w counts them")
