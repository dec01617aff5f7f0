/* ELSEWHERE(names, advice): what other programs have and mica has not, or not yet, and what to do
 * instead, the end of a message: "mica: there is no command 'pull'; ...", "mica: run has no option
 * -ngl; ...". Names have blanks between; those of options have their dashes. A row goes when mica
 * gets the thing. */
ELSEWHERE("pull", "mica does not download yet: hf download ORG/NAME does, and mica list shows it")
ELSEWHERE("serve server",
          "mica is no server yet: mica batch answers a file of prompts, and libmica "
          "is for programs")
ELSEWHERE("ps", "mica keeps no model loaded between two commands: mica list shows those on disk")
ELSEWHERE("stop", "mica keeps no model loaded between two commands: Ctrl-C stops an answer")
ELSEWHERE("rm", "mica removes no models: remove the folder, or use hf cache delete")
ELSEWHERE("create", "a model is a folder: options such as --system are set where it is run")
ELSEWHERE("lora train",
          "mica does not train yet: mlx_lm.lora or PEFT make an adapter, and --adapter "
          "takes it")
ELSEWHERE("fuse", "mica does not fuse adapters yet: --adapter takes one as it is, and mlx_lm.fuse "
                  "makes one model of both")
ELSEWHERE("quantize quantise", "mica does not quantise yet: mlx_lm.convert -q does, and mica runs "
                               "what it makes")
ELSEWHERE("convert", "mica runs folders of MLX and Hugging Face as they are: mlx_lm.convert makes "
                     "them from other formats")
ELSEWHERE("ls", "did you mean 'list'?")
ELSEWHERE("perplexity", "did you mean 'eval'?")

ELSEWHERE("-ngl --gpu-layers --n-gpu-layers -mg --main-gpu -sm --split-mode -ts --tensor-split",
          "leave it out: mica computes all layers on the CPU")
ELSEWHERE("--lora --lora-scaled", "did you mean --adapter, a folder of mlx-lm or PEFT?")
ELSEWHERE("-mu --model-url", "mica does not download yet: hf download ORG/NAME does, and --model "
                             "ORG/NAME takes it")
ELSEWHERE("-hf --hf-repo", "did you mean --model? mica does not download yet: hf download ORG/NAME "
                           "does, and --model ORG/NAME takes it")
ELSEWHERE("-cnv --conversation -i --interactive", "did you mean mica chat?")
ELSEWHERE("-st --single-turn", "leave it out: mica run answers once")
ELSEWHERE("--no-display-prompt --simple-io --color -co",
          "leave it out: nothing but the answer goes to standard output")
ELSEWHERE("-no-cnv --no-conversation --ignore-chat-template", "did you mean mica generate?")
ELSEWHERE("-fa --flash-attn", "leave it out: attention never keeps all its scores at once")
ELSEWHERE("-ctk -ctv --cache-type-k --cache-type-v", "did you mean --cache, the type of both?")
ELSEWHERE("--jinja", "leave it out: the model's chat template is always taken")
ELSEWHERE("--chat-template-kwargs --chat-template-config", "did you mean --variable NAME=VALUE?")
ELSEWHERE("--prompt-cache --prompt-cache-file", "did you mean mica chat --session?")
ELSEWHERE("--trust-remote-code", "leave it out: mica runs no code that comes with a model")
ELSEWHERE(
    "--grammar --grammar-file --json-schema --format",
    "mica does not constrain answers yet: ask for a form in the prompt, and end it with --stop")
ELSEWHERE("--xtc-probability --xtc-threshold --mirostat --typical",
          "mica has no such sampler yet: --min-p and --top-p are near it")
ELSEWHERE("--keepalive", "leave it out: mica keeps no model loaded between two commands")
