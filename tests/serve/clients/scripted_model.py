"""A tiny model whose greedy answers are known: one text to a user, another to a tool's result.

The next token depends on the last one alone: embeddings are one-hot, the layer's weights are zero,
and the head is the matrix of successors. So a call of a tool can be scripted to the byte, whatever
an agent sends. Its chat template takes the roles that it must, and refuses all else: system
messages at the beginning only, and no two messages of one role in a row. It marks no thoughts.
"""
import json
import os
import struct

TEMPLATE = """{%- if tools %}{{- '<|system|># Tools\\n' }}{%- for tool in tools %}
{{- tool | tojson }}{%- endfor %}{{- '\\nTo call one: <tool_call>\\n' }}
{{- '{"name": ..., "arguments": {...}}\\n</tool_call>' }}
{%- endif %}{%- for m in messages %}
{%- if m.role == 'system' and not loop.first %}{{- raise_exception('system is first') }}{%- endif %}
{%- if not loop.first and m.role != 'tool' and m.role == loop.previtem.role %}
{{- raise_exception('roles alternate') }}{%- endif %}
{{- '<|' + m.role + '|>' + m.content }}
{%- for call in m.tool_calls or [] %}{{- '\\n<tool_call>\\n{"name": "' + call.function.name +
'", "arguments": ' }}{{- call.function.arguments | tojson }}{{- '}\\n</tool_call>' }}{%- endfor %}
{%- endfor %}
{%- if add_generation_prompt %}
{{- '<|told|>' if messages[-1].role == 'tool' else '<|go|>' }}{%- endif %}"""

SPECIAL = ["<|bos|>", "<|eos|>", "<|go|>", "<|told|>", "<|user|>", "<|system|>", "<|assistant|>",
           "<|tool|>"]


def byte_letters():
    """The letters that byte-level vocabularies write bytes with."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = [b for b in range(256) if b not in shown]
    return {**{b: chr(b) for b in shown}, **{b: chr(256 + i) for i, b in enumerate(hidden)}}


def pieces_of(text, seen):
    """Cuts a text into pieces of three bytes or more, none of which is in `seen`."""
    data, pieces, at = text.encode(), [], 0
    while at < len(data):
        n = 3
        while data[at : at + n] in seen and at + n < len(data):
            n += 1
        piece = data[at : at + n]
        if piece in seen:
            raise ValueError("the end of the text repeats")
        seen.add(piece)
        pieces.append(piece)
        at += n
    return pieces


def write_weights(path, tensors):
    """tensors: name: (shape, {index: value}), zero elsewhere; f32."""
    header, at, chunks = {}, 0, []
    for name, (shape, values) in tensors.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        data = bytearray(4 * count)
        for index, value in values.items():
            struct.pack_into("<f", data, 4 * index, value)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
        chunks.append(data)
    text = json.dumps(header).encode()
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text + b"".join(chunks))


def build(folder, to_user, to_tool, context=262144, template=TEMPLATE):
    """Writes the model; to_user, to_tool: its answers."""
    os.makedirs(folder, exist_ok=True)
    letters, seen = byte_letters(), set()
    vocab = {letters[b]: b for b in range(256)}
    answers = []
    for text in (to_user, to_tool):
        ids = []
        for piece in pieces_of(text, seen):
            ids.append(vocab.setdefault("".join(letters[b] for b in piece), len(vocab)))
        answers.append(ids)
    special = {text: len(vocab) + i for i, text in enumerate(SPECIAL)}
    size = (len(vocab) + len(special) + 63) // 64 * 64
    head = {}
    for start, ids in zip(("<|go|>", "<|told|>"), answers):
        chain = [special[start], *ids, special["<|eos|>"]]
        head.update({after * size + before: 1.0 for before, after in zip(chain, chain[1:])})
    width, layer = 64, "model.layers.0."
    tensors = {
        "model.embed_tokens.weight": ([size, size], {i * size + i: 1.0 for i in range(size)}),
        "lm_head.weight": ([size, size], head),
    }
    for name, shape in (("self_attn.q_proj", [width, size]), ("self_attn.k_proj", [width, size]),
                        ("self_attn.v_proj", [width, size]), ("self_attn.o_proj", [size, width]),
                        ("mlp.gate_proj", [width, size]), ("mlp.up_proj", [width, size]),
                        ("mlp.down_proj", [size, width])):
        tensors[layer + name + ".weight"] = (shape, {})
    for name in (layer + "input_layernorm", layer + "post_attention_layernorm", "model.norm"):
        tensors[name + ".weight"] = ([size], {i: 1.0 for i in range(size)})
    write_weights(os.path.join(folder, "model.safetensors"), tensors)

    def save(name, value):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
            json.dump(value, out)

    save("config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": size,
        "intermediate_size": width, "num_hidden_layers": 1, "num_attention_heads": 1,
        "num_key_value_heads": 1, "head_dim": width, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "max_position_embeddings": context, "vocab_size": size, "tie_word_embeddings": False,
        "torch_dtype": "float32", "bos_token_id": special["<|bos|>"],
        "eos_token_id": special["<|eos|>"], "hidden_act": "silu"})
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
             "use_regex": True}
    save("tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": i, "content": text, "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True}
                         for text, i in special.items()],
        "normalizer": None, "pre_tokenizer": level, "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": vocab, "merges": []}})
    save("tokenizer_config.json", {
        "bos_token": "<|bos|>", "eos_token": "<|eos|>", "chat_template": template,
        "add_bos_token": False, "tokenizer_class": "PreTrainedTokenizerFast"})


def call_of(name, **arguments):
    """The text of a call, in the form that the template asks for."""
    return f'<tool_call>\n{json.dumps({"name": name, "arguments": arguments})}\n</tool_call>'
