#!/usr/bin/env python3
"""Makes tests/fixtures/ops/int8.*: int8 convolutions and products as onnxruntime computes them.

    python3 tools/make_int8_goldens.py     (needs the Python packages numpy, onnx, onnxruntime and
                                            safetensors; made with onnxruntime 1.32.0 on a CPU)

Scales are powers of two, so that the multiplier, x's scale times w's by that of the result, is
exact.
"""
import numpy as np
import onnxruntime
from onnx import TensorProto, helper

from nn_goldens import Records

random = np.random.default_rng(36)
records = Records("int8")
KINDS = {"float32": TensorProto.FLOAT, "int8": TensorProto.INT8, "int32": TensorProto.INT32}


def run(op, inputs, **attributes):
    values = [helper.make_tensor_value_info(name, KINDS[str(x.dtype)], x.shape)
              for name, x in inputs.items()]
    out = helper.make_tensor_value_info("y", TensorProto.INT8, None)
    node = helper.make_node(op, list(inputs), ["y"], **attributes)
    model = helper.make_model(helper.make_graph([node], op, values, [out]), ir_version=10,
                              opset_imports=[helper.make_opsetid("", 17)])
    session = onnxruntime.InferenceSession(model.SerializeToString(),
                                           providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


def codes(*shape):
    return random.integers(-128, 128, shape).astype(np.int8)


def scales(n):
    return np.exp2(random.integers(-4, 0, n)).astype(np.float32)


def with_scales(x, w, w_scale, zeros, y_scale):
    """The inputs of QLinearConv and QLinearMatMul, before a bias."""
    zero_x, zero_w, zero_y = (np.array(z, np.int8) for z in zeros)
    return {"x": x, "xs": np.float32(0.25), "xz": zero_x, "w": w, "ws": w_scale,
            "wz": np.full(w_scale.shape, zero_w, np.int8), "ys": np.float32(y_scale), "yz": zero_y}


def conv(x_shape, w_shape, stride=(1, 1), padding=(0, 0, 0, 0), dilation=(1, 1), groups=1,
         zeros=(0, 0, 0), bias=True, y_scale=2.0):
    x, w, outs = codes(*x_shape), codes(*w_shape), w_shape[0]
    w_scale = scales(outs)
    inputs = {k: np.array(v) for k, v in with_scales(x, w, w_scale, zeros, y_scale).items()}
    stored = {"x": x, "w": w, "factor": (w_scale * np.float32(0.25 / y_scale))}
    if bias:
        stored["bias"] = inputs["b"] = random.integers(-2000, 2000, outs).astype(np.int32)
    y = run("QLinearConv", inputs, strides=stride, pads=padding, dilations=dilation, group=groups)
    records.add("qconv2d", {"stride": stride, "padding_lo": padding[:2], "padding_hi": padding[2:],
                            "dilation": dilation, "groups": groups, "x_zero": zeros[0],
                            "w_zero": zeros[1], "zero": zeros[2]}, stored, [y])


def matmul(m, k, n, zeros):
    x, w = codes(m, k), codes(k, n)
    w_scale = np.float32(0.125)
    inputs = with_scales(x, w, w_scale, zeros, 16.0)
    y = run("QLinearMatMul", {key: np.array(v) for key, v in inputs.items()})
    records.add("qmatmul", {"x_zero": zeros[0], "w_zero": zeros[1], "zero": zeros[2]},
                {"x": x, "w": w, "factor": np.float32(0.25 * 0.125 / 16)}, [y])


def main():
    conv((2, 3, 5, 4), (4, 3, 1, 1))
    conv((2, 3, 7, 6), (4, 3, 3, 3), zeros=(3, 0, -5), y_scale=16.0)
    conv((1, 3, 8, 7), (5, 3, 3, 3), stride=(2, 2), padding=(1, 1, 1, 1), zeros=(-7, 5, 9),
         y_scale=16.0)
    conv((1, 2, 9, 8), (3, 2, 3, 2), stride=(1, 3), padding=(2, 1, 0, 3), dilation=(2, 1),
         zeros=(100, 0, 0), bias=False, y_scale=16.0)
    conv((2, 6, 6, 5), (4, 3, 3, 3), groups=2, padding=(1, 1, 1, 1), zeros=(5, -9, 1), y_scale=16.0)
    conv((2, 6, 6, 5), (6, 1, 3, 3), groups=6, padding=(1, 1, 1, 1), zeros=(-128, 0, 0),
         y_scale=16.0)
    conv((1, 40, 5, 5), (7, 40, 5, 5), padding=(2, 2, 2, 2), zeros=(11, 127, -20), y_scale=64.0)
    conv((1, 30, 6, 6), (6, 15, 5, 5), padding=(2, 2, 2, 2), groups=2, zeros=(-11, -3, 2),
         y_scale=64.0)
    conv((1, 1, 40, 40), (2, 1, 33, 35), zeros=(1, 2, 0), y_scale=64.0)
    for zeros in ((0, 0, 0), (3, 6, -4), (-100, 0, 100)):
        matmul(4, 37, 5, zeros)
    matmul(2, 2100, 3, (-128, 0, 0))
    records.save()


if __name__ == "__main__":
    main()
