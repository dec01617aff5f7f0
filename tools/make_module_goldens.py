#!/usr/bin/env python3
"""Makes tests/fixtures/ops/module.*: layers as MLX's modules compute them.

    python3 tools/make_module_goldens.py     (needs the Python packages mlx, numpy and safetensors;
                                              made with mlx 0.32.4 on a CPU)

nn.Linear, nn.QuantizedLinear, nn.Embedding and nn.QuantizedEmbedding, the last two as a linear
layer, too, and nn.RMSNorm.
"""
import mlx.core as mx
import mlx.nn as nn
import numpy as np

from nn_goldens import Records

mx.set_default_device(mx.cpu)
mx.random.seed(38)
random = np.random.default_rng(38)
records = Records("module")


def normal(*shape):
    return random.standard_normal(shape).astype(np.float32)


def weights_of(layer):
    names = ("weight", "scales", "biases", "bias")
    return {name: np.array(layer[name]) for name in names if name in layer}


def quant_of(layer):
    keys = ("mode", "bits", "group_size")
    return {key: getattr(layer, key) for key in keys if hasattr(layer, key)}


def add_linear(layer, *shape):
    x = normal(*shape)
    records.add("linear", quant_of(layer), {"x": x} | weights_of(layer),
                [np.array(layer(mx.array(x)))])


def add_embedding(layer, rows, width, *shape):
    ids = random.integers(0, rows, shape).astype(np.int32)
    records.add("embedding", quant_of(layer), {"ids": ids} | weights_of(layer),
                [np.array(layer(mx.array(ids)).astype(mx.float32))])
    x = normal(3, width)
    records.add("linear", quant_of(layer), {"x": x} | weights_of(layer),
                [np.array(layer.as_linear(mx.array(x)))], "an embedding as a linear layer")


def make(kind, *sizes, **options):
    layer = kind(*sizes, **options)
    layer.update({name: mx.array(normal(*value.shape))
                  for name, value in layer.parameters().items()})
    return layer


MODES = ({"bits": 4, "group_size": 64}, {"bits": 8, "group_size": 32},
         {"bits": 3, "group_size": 32}, {"mode": "mxfp4"}, {"mode": "mxfp8"}, {"mode": "nvfp4"})

for bias in (True, False):
    add_linear(make(nn.Linear, 6, 5, bias=bias), 6)
    add_linear(make(nn.Linear, 64, 7, bias=bias), 2, 3, 64)
    for mode in MODES:
        add_linear(make(nn.Linear, 128, 8, bias=bias).to_quantized(**mode), 3, 128)
add_linear(make(nn.Linear, 64, 8).to_quantized(bits=4, group_size=64), 64)
add_embedding(make(nn.Embedding, 9, 6), 9, 6, 2, 5)
for mode in MODES:
    add_embedding(make(nn.Embedding, 12, 64).to_quantized(**mode), 12, 64, 7)
norm = make(nn.RMSNorm, 10, eps=1e-3)
x = normal(2, 3, 10)
records.add("rms_norm", {"eps": 1e-3}, {"x": x, "weight": np.array(norm.weight)},
            [np.array(norm(mx.array(x)))])
records.save()
