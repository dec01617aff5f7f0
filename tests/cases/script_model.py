"""A tiny llama whose greedy answer is a fixed list of pieces, whatever the prompt is.

The next token depends on the last one only: embeddings are one-hot, the layer's matrices are zero,
and the head says which token follows which.
"""
import json
import os

import safetensors_file

SPECIAL = ['<|bos|>', '<|eos|>', '<|go|>', '<|user|>', '<|system|>', '<|assistant|>', '<|end|>']
TEMPLATE = ("{%- for m in messages %}{{- '<|' + m.role + '|>' + m.content }}{%- endfor %}"
            "{%- if add_generation_prompt %}{{- '<|go|>' }}{%- endif %}")
WIDTH = 64


def spell(text):
    """The byte-level alphabet of GPT-2, for texts of letters and blanks."""
    return text.replace(' ', '\u0120')


def byte_letters():
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}


class Model:
    """The parts of a model folder, to change before `save`."""

    def __init__(self, pieces, end=True):
        self.ids = {letter: b for b, letter in byte_letters().items()}
        for piece in pieces:
            self.ids.setdefault(spell(piece), len(self.ids))
        said = [self.ids[spell(piece)] for piece in pieces]
        n = len(self.ids)
        self.special = {name: n + i for i, name in enumerate(SPECIAL)}
        self.size = (n + len(SPECIAL) + 63) // 64 * 64
        self.tensors = weights(self.size)
        path = [self.special['<|go|>'], *said] + [self.special['<|eos|>']] * end
        for last, following in zip(path, path[1:]):
            self.follow(last, following)
        self.config = {
            'architectures': ['LlamaForCausalLM'], 'model_type': 'llama',
            'hidden_size': self.size, 'intermediate_size': WIDTH, 'num_hidden_layers': 1,
            'num_attention_heads': 1, 'num_key_value_heads': 1, 'head_dim': WIDTH,
            'rms_norm_eps': 1e-6, 'rope_theta': 10000.0, 'max_position_embeddings': 4096,
            'vocab_size': self.size, 'tie_word_embeddings': False, 'torch_dtype': 'float32',
            'bos_token_id': self.special['<|bos|>'], 'eos_token_id': self.special['<|eos|>'],
            'hidden_act': 'silu'}
        self.tokenizer_config = {
            'bos_token': '<|bos|>', 'eos_token': '<|eos|>', 'chat_template': TEMPLATE,
            'add_bos_token': False, 'tokenizer_class': 'PreTrainedTokenizerFast'}
        self.generation_config = None

    def id(self, piece):
        return self.ids[spell(piece)]

    def follow(self, last, following, weight=1.0):
        """The token `following` gets this logit after `last`."""
        self.tensors['lm_head.weight'][1][following * self.size + last] = weight

    def forget(self):
        """Nothing follows anything."""
        self.tensors['lm_head.weight'] = safetensors_file.zeros(self.size, self.size)

    def save(self, folder):
        os.makedirs(folder)
        safetensors_file.write(os.path.join(folder, 'model.safetensors'), self.tensors)
        files = {'config.json': self.config, 'tokenizer_config.json': self.tokenizer_config,
                 'tokenizer.json': tokenizer(self.ids, self.special),
                 'generation_config.json': self.generation_config}
        for name, value in files.items():
            if value is not None:
                with open(os.path.join(folder, name), 'w', encoding='utf-8') as file:
                    json.dump(value, file)
        return folder


def weights(size):
    embedding = safetensors_file.zeros(size, size)
    for i in range(size):
        embedding[1][i * size + i] = 1.0
    tensors = {'model.embed_tokens.weight': embedding,
               'lm_head.weight': safetensors_file.zeros(size, size)}
    layer = 'model.layers.0.'
    into = ['self_attn.q_proj', 'self_attn.k_proj', 'self_attn.v_proj', 'mlp.gate_proj',
            'mlp.up_proj']
    for name in into:
        tensors[layer + name + '.weight'] = safetensors_file.zeros(WIDTH, size)
    for name in ['self_attn.o_proj', 'mlp.down_proj']:
        tensors[layer + name + '.weight'] = safetensors_file.zeros(size, WIDTH)
    for name in ['model.norm', layer + 'input_layernorm', layer + 'post_attention_layernorm']:
        shape, values = safetensors_file.zeros(size)
        for i in range(size):
            values[i] = 1.0
        tensors[name + '.weight'] = shape, values
    return tensors


def tokenizer(ids, special):
    level = {'type': 'ByteLevel', 'trim_offsets': True, 'use_regex': True}
    added = [{'id': i, 'content': name, 'single_word': False, 'lstrip': False, 'rstrip': False,
              'normalized': False, 'special': True} for name, i in special.items()]
    return {'version': '1.0', 'truncation': None, 'padding': None, 'added_tokens': added,
            'normalizer': None, 'pre_tokenizer': dict(level, add_prefix_space=False),
            'post_processor': None, 'decoder': dict(level, add_prefix_space=True),
            'model': {'type': 'BPE', 'dropout': None, 'unk_token': None,
                      'continuing_subword_prefix': None, 'end_of_word_suffix': None,
                      'fuse_unk': False, 'byte_fallback': False, 'ignore_merges': False,
                      'vocab': ids, 'merges': []}}
