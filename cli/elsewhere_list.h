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
ELSEWHERE("-ctk -ctv --cache-type-k --cache-type-v", "did you mean --cache, the type of both?")
ELSEWHERE("--jinja", "leave it out: mica always uses the model's chat template")
ELSEWHERE("--chat-template-kwargs --chat-template-config", "did you mean --variable NAME=VALUE?")
ELSEWHERE("--prompt-cache --prompt-cache-file", "did you mean mica chat --session?")
ELSEWHERE("--trust-remote-code", "leave it out: mica never runs code that comes with a model")
ELSEWHERE("--grammar --grammar-file --json-schema --format",
          "mica does not constrain answers yet: ask for the format in the prompt, and end the "
          "answer with --stop")
ELSEWHERE("--xtc-probability --xtc-threshold --mirostat --typical",
          "mica does not have this sampler yet: --min-p and --top-p are similar")
ELSEWHERE("--keepalive", "leave it out: mica keeps no model loaded between commands")
