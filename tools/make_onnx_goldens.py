#!/usr/bin/env python3
"""Makes tests/fixtures/onnx: small networks in ONNX's format, with what onnxruntime computes.

    python3 tools/make_onnx_goldens.py [NAME...]   (all of them without a name; needs the Python
                                                    packages onnx and onnxruntime; made with onnx
                                                    1.23 and onnxruntime 1.32)

<name>.onnx is a network; <name>.npz its inputs, "in.<name>", and outputs, "out.<name>";
<name>.2.npz and so on those of other sizes. Weights are random. outside.onnx has its weights in
outside.data. The networks are also the seeds of fuzz/onnx. Those of KEPT are kept: torch exported
det_nms.onnx, and others were made by hand.
"""
import hashlib
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIXTURES = ROOT / "tests/fixtures"
OUT = FIXTURES / "onnx"
SEEDS = ROOT / "fuzz/corpus/onnx"
F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL

random = np.random.default_rng(36)


def weights(**arrays):
    return [numpy_helper.from_array(np.asarray(x), name) for name, x in arrays.items()]


def normal(*shape, scale=0.5):
    return random.normal(0, scale, shape).astype("f4")


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def own(op, inputs, outputs, **attributes):
    return node(op, inputs, outputs, domain="own", **attributes)


def value(name, dtype, *shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def mlp():
    nodes = [node("Gemm", "x w1 b1", "h", transB=1), node("Relu", "h", "r"),
             node("Gemm", "r w2 b2", "z", alpha=0.5, beta=2.0), node("Softmax", "z", "y")]
    init = weights(w1=normal(16, 8), b1=normal(16), w2=normal(16, 4), b2=normal(4))
    return (nodes, [value("x", F, "batch", 8)], [value("y", F, "batch", 4)], init,
            dict(x=normal(3, 8)))


def cnn():
    """Norms behind convolutions, a depthwise one, pools, a sum of branches."""
    nodes = [
        node("Conv", "x w1 b1", "c1", pads=[1, 1, 1, 1], strides=[2, 2]),
        node("BatchNormalization", "c1 s1 h1 m1 v1", "n1"), node("Relu", "n1", "r1"),
        node("MaxPool", "r1", "p1", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Conv", "p1 w2", "c2", pads=[1, 1, 1, 1], group=8),
        node("BatchNormalization", "c2 s1 h1 m1 v1", "n2"), node("HardSwish", "n2", "r2"),
        node("Add", "p1 r2", "a"), node("Mul", "a scale", "m"),
        node("Conv", "m w3", "c3", auto_pad="SAME_UPPER"),
        node("AveragePool", "c3", "q", kernel_shape=[2, 2], ceil_mode=1),
        node("ConvTranspose", "q w4", "t", strides=[2, 2], output_padding=[1, 1], group=2),
        node("Concat", "t t", "cc", axis=1),
        node("GlobalAveragePool", "cc", "g"), node("Flatten", "g", "f"),
        node("MatMul", "f w5", "y")]
    init = weights(w1=normal(8, 3, 3, 3), b1=normal(8), s1=normal(8), h1=normal(8), m1=normal(8),
                   v1=np.abs(normal(8)) + 0.1, w2=normal(8, 1, 3, 3), w3=normal(6, 8, 3, 3),
                   w4=normal(6, 2, 3, 3), w5=normal(8, 5), scale=normal(8, 1, 1))
    return (nodes, [value("x", F, 2, 3, 21, 18)],
            [value("y", F, 2, 5), value("r1", F, 2, 8, 11, 9)],
            init, dict(x=normal(2, 3, 21, 18)))


def shapes():
    """Lengths that the graph computes, as exporters write them: attention over heads."""
    nodes = [
        node("Gather", "table ids", "x", axis=0), node("Shape", "x", "shape"),
        node("Gather", "shape zero", "batch", axis=0),
        node("Gather", "shape one", "length", axis=0),
        node("Unsqueeze", "batch axis", "b1"), node("Unsqueeze", "length axis", "l1"),
        node("Concat", "b1 l1 heads each", "split", axis=0), node("MatMul", "x wq", "q"),
        node("MatMul", "x wk", "k"), node("Reshape", "q split", "q4"),
        node("Reshape", "k split", "k4"),
        node("Transpose", "q4", "qt", perm=[0, 2, 1, 3]),
        node("Transpose", "k4", "kt", perm=[0, 2, 3, 1]),
        node("MatMul", "qt kt", "s"), node("Div", "s root", "sd"),
        node("Cast", "mask", "mf", to=F), node("Sub", "onef mf", "im"),
        node("Mul", "im low", "bias"),
        node("Unsqueeze", "bias axes12", "bias4"), node("Add", "sd bias4", "sm"),
        node("Softmax", "sm", "p", axis=-1), node("MatMul", "p qt", "o"),
        node("Transpose", "o", "ot", perm=[0, 2, 1, 3]), node("Concat", "b1 minus", "flat", axis=0),
        node("Reshape", "ot flat", "of"), node("LayerNormalization", "of g", "y", epsilon=1e-6),
        node("Slice", "y two end axis1 step", "z"), node("ReduceMean", "z axis1", "m", keepdims=0)]
    init = weights(table=normal(11, 12), wq=normal(12, 12), wk=normal(12, 12), g=normal(60),
                   zero=np.int64(0), one=np.int64(1), axis=np.array([0]), axes12=np.array([1, 2]),
                   heads=np.array([3]), each=np.array([4]), root=np.float32(2), onef=np.float32(1),
                   low=np.float32(-1e4), minus=np.array([-1]), two=np.array([-2]),
                   end=np.array([-(2**63)]), axis1=np.array([1]), step=np.array([-3]))
    feeds = dict(ids=random.integers(0, 11, (2, 5)), mask=np.array([[1] * 5, [1, 1, 1, 0, 0]]))
    return (nodes, [value("ids", I, "n", "l"), value("mask", I, "n", "l")],
            [value("y", F, "n", None), value("m", F, "n")], init, feeds)


def branch():
    inner = lambda op, other: helper.make_graph(
        [node(op, f"x {other}", "r")], op, [], [value("r", F, 2, 3)],
        weights(**{other: normal(2, 3)}))
    nodes = [node("ReduceSum", "x", "sum", keepdims=0), node("Greater", "sum zero", "c"),
             node("If", "c", "y", then_branch=inner("Mul", "a"), else_branch=inner("Sub", "b")),
             node("If", "yes", "k", then_branch=inner("Add", "a2"), else_branch=inner("Sub", "b2"))]
    return (nodes, [value("x", F, 2, 3)], [value("y", F, 2, 3), value("k", F, 2, 3)],
            weights(zero=np.float32(0), yes=np.array(True)), dict(x=normal(2, 3)))


def loops():
    """One that stops on a value, one that collects results, one that is written out, a scan."""
    halve = helper.make_graph(
        [node("Mul", "v half", "v1"), node("ReduceMax", "v1", "m", keepdims=0),
         node("Greater", "m bound", "go")], "halve",
        [value("i", I), value("c", B), value("v", F, 4)], [value("go", B), value("v1", F, 4)],
        weights(half=np.float32(0.5), bound=np.float32(1)))
    walk = lambda: helper.make_graph(
        [node("Identity", "c", "go"), node("Cast", "i", "f", to=F), node("Mul", "v w", "u"),
         node("Add", "u f", "v1"), node("Identity", "v1", "o")], "walk",
        [value("i", I), value("c", B), value("v", F, 4)],
        [value("go", B), value("v1", F, 4), value("o", F, 4)])
    step = helper.make_graph([node("Add", "s a", "s1"), node("Tanh", "s1", "o")], "step",
                             [value("s", F, 3), value("a", F, 3)],
                             [value("s1", F, 3), value("o", F, 3)])
    nodes = [node("Loop", " yes x", "h", body=halve),
             node("Loop", "hundred yes x", "e es", body=walk()),
             node("Loop", "three yes x", "d ds", body=walk()),
             node("Scan", "s0 rows", "last all", body=step, num_scan_inputs=1, scan_input_axes=[1],
                  scan_input_directions=[1], scan_output_axes=[1])]
    nodes[0].input[:] = ["", "yes", "x"]
    init = weights(yes=np.array(True), hundred=np.int64(100), three=np.int64(3), w=normal(4),
                   s0=normal(3))
    outputs = [value("h", F, 4), value("e", F, 4), value("es", F, 100, 4), value("d", F, 4),
               value("ds", F, 3, 4), value("last", F, 3), value("all", F, 3, 5)]
    return (nodes, [value("x", F, 4), value("rows", F, 3, 5)], outputs, init,
            dict(x=np.abs(normal(4, scale=50)), rows=normal(3, 5)))


def numbers():
    """Integers, bools, indices and what picks elements."""
    nodes = [node("Div", "i j", "q"), node("Mod", "i j", "r"), node("TopK", "x two", "t ti"),
             node("ArgMax", "x", "am", axis=1, select_last_index=1),
             node("CumSum", "x one", "cs", reverse=1),
             node("OneHot", "i depth offon", "oh"),
             node("ScatterND", "x at up", "sn", reduction="add"),
             node("GatherElements", "x ge", "gg", axis=1),
             node("Pad", "x pads", "pd", mode="reflect"),
             node("Where", "c x y", "w"), node("Split", "x", "sa sb", axis=1, num_outputs=2),
             node("Identity", "x", "same"), node("Einsum", "x y", "ee", equation="ij,kj->ik")]
    init = weights(two=np.array([2]), one=np.int64(1), depth=np.int64(4),
                   offon=np.array([-1, 2], "f4"),
                   at=np.array([[0], [2], [0]]), up=normal(3, 5),
                   ge=np.array([[0, -1], [2, 2], [4, 1]]),
                   pads=np.array([1, 2, 0, 3]))
    feeds = dict(i=np.array([-7, 7, -3, 2]), j=np.array([2, -2, 3, 5]), x=normal(3, 5),
                 y=normal(3, 5),
                 c=random.integers(0, 2, (3, 5)).astype(bool))
    kinds = dict(q=I, r=I, t=F, ti=I, am=I, cs=F, oh=F, sn=F, gg=F, pd=F, w=F, sa=F, sb=F, same=F,
                 ee=F)
    outputs = [value(n, t, *[None] * (1 if n in "qr" else 2)) for n, t in kinds.items()]
    return (nodes, [value("i", I, 4), value("j", I, 4), value("x", F, 3, 5), value("y", F, 3, 5),
                    value("c", B, 3, 5)], outputs, init, feeds)


def vision():
    """Sizes that change, and what is picked and put back."""
    nodes = [
        node("Resize", "x  twice", "a", mode="linear"),
        node("Resize", "x   small", "b", mode="cubic",
             coordinate_transformation_mode="align_corners"),
        node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
        node("Resize", "c  twice", "d", mode="nearest"),
        node("DepthToSpace", "d", "e", blocksize=2), node("InstanceNormalization", "c s h", "f"),
        node("LpPool", "c", "g", kernel_shape=[2, 2]), node("LRN", "c", "k", size=3)]
    nodes[0].input[:], nodes[1].input[:] = ["x", "", "twice"], ["x", "", "", "small"]
    nodes[3].input[:] = ["c", "", "twice"]
    init = weights(twice=np.array([1, 1, 2, 2], "f4"), small=np.array([2, 4, 3, 5]),
                   w=normal(4, 4, 3, 3),
                   s=normal(4), h=normal(4))
    return (nodes, [value("x", F, 2, 4, 5, 7)],
            [value(n, F, None, None, None, None) for n in "abefgk"],
            init, dict(x=normal(2, 4, 5, 7)))


def quantised():
    nodes = [node("QuantizeLinear", "x xs xz", "q"), node("DequantizeLinear", "q xs xz", "dq"),
             node("DynamicQuantizeLinear", "x", "u us uz"),
             node("DequantizeLinear", "w ws", "dw", axis=1),
             node("MatMul", "dq dw", "y"), node("MatMulInteger", "u w uz", "i"),
             node("QLinearMatMul", "q xs xz w w1 wz ys yz", "ql")]
    init = weights(xs=np.float32(0.02), xz=np.int8(3),
                   w=random.integers(-128, 128, (8, 6)).astype("i1"),
                   ws=np.abs(normal(6)) / 50 + 0.01, w1=np.float32(0.03), wz=np.int8(-2),
                   ys=np.float32(0.1), yz=np.int8(1))
    I8, U8, I32 = TensorProto.INT8, TensorProto.UINT8, TensorProto.INT32
    outputs = [value("q", I8, 5, 8), value("u", U8, 5, 8), value("y", F, 5, 6),
               value("i", I32, 5, 6),
               value("ql", I8, 5, 6)]
    return nodes, [value("x", F, 5, 8)], outputs, init, dict(x=normal(5, 8))


def recurrent():
    nodes = [node("LSTM", "x lw lr lb", "ly lh lc", hidden_size=4, direction="bidirectional"),
             node("GRU", "x gw gr gb", "gy gh", hidden_size=4, linear_before_reset=1),
             node("GRU", "x gw gr", "ry rh", hidden_size=4, direction="reverse"),
             node("RNN", "x nw nr nb", "ny nh", hidden_size=4)]
    init = weights(lw=normal(2, 16, 3), lr=normal(2, 16, 4), lb=normal(2, 32), gw=normal(1, 12, 3),
                   gr=normal(1, 12, 4), gb=normal(1, 24), nw=normal(1, 4, 3), nr=normal(1, 4, 4),
                   nb=normal(1, 8))
    outputs = [value(n, F, *[None] * (4 if n[1] == "y" else 3)) for n in
               ("ly", "lh", "lc", "gy", "gh", "ry", "rh", "ny", "nh")]
    return nodes, [value("x", F, 6, 2, 3)], outputs, init, dict(x=normal(6, 2, 3))


def outside():
    nodes = [node("MatMul", "x w", "z"), node("Add", "z b", "y")]
    return (nodes, [value("x", F, 2, 8)], [value("y", F, 2, 6)],
            weights(w=normal(8, 6), b=normal(6)),
            dict(x=normal(2, 8)))


def halves():
    """f16: a norm that becomes a part of a convolution, and one that must not, with f16's range."""
    H = TensorProto.FLOAT16
    nodes = [node("Conv", "x w b", "c", pads=[1, 1, 1, 1]),
             node("BatchNormalization", "c s h m v", "n"), node("Relu", "n", "y"),
             node("Conv", "x w", "d"), node("BatchNormalization", "d s h m v", "e"),
             node("Add", "d e", "z")]
    init = dict(w=normal(4, 3, 3, 3), b=normal(4), s=normal(4), h=normal(4), m=normal(4),
                v=np.abs(normal(4)) + 0.1)
    return (nodes, [value("x", H, 2, 3, 5, 6)], [value(n, H, 2, 4, None, None) for n in "yz"],
            weights(**{k: v.astype("f2") for k, v in init.items()}),
            dict(x=normal(2, 3, 5, 6).astype("f2")))


def corners():
    """What is at the edges of operators: pads longer than the axis, regions that lead out of an
    image, remainders of infinity, zeros that a file leaves out, the default activations."""
    crop = dict(coordinate_transformation_mode="tf_crop_and_resize")
    nodes = [node("Pad", "v long", "pe", mode="edge"), node("Pad", "v both", "pr", mode="reflect"),
             node("Resize", "x half none fewer", "rh", mode="linear", **crop),
             node("Resize", "x out none more", "rn", mode="nearest", **crop),
             node("Resize", "x out none more", "rl", mode="linear", **crop),
             node("Mod", "a b", "f", fmod=1), node("Mod", "i j", "g", fmod=1),
             node("Softmax", "x", "s", axis=0),
             node("LSTM", "t lw lr", "ly", hidden_size=4, activations=["Sigmoid", "Tanh", "Tanh"])]
    nodes[7].attribute[0].ClearField("i")
    init = weights(long=np.array([1024, 1024]), both=np.array([3, 2]),
                   half=np.array([0, 0, 1, 0.5], "f4"),
                   out=np.array([0, -0.5, 1, 1.5], "f4"), none=np.zeros(0, "f4"),
                   fewer=np.array([2, 5]), more=np.array([3, 7]), lw=normal(1, 16, 3),
                   lr=normal(1, 16, 4))
    feeds = dict(v=normal(4), a=np.array([-1, -1e-8, 5.5, -5.5, 5.5, -4], "f4"),
                 b=np.array([np.inf, 3, -2, 2, np.inf, 2], "f4"), i=np.array([-7, 7, -7, -(2**63)]),
                 j=np.array([3, -3, -3, 3]), x=normal(3, 5), t=normal(2, 1, 3))
    outputs = [value(n, F, None) for n in ("pe", "pr", "f")]
    outputs += [value(n, F, None, None) for n in ("rh", "rn", "rl")]
    outputs += [value("g", I, 4), value("s", F, 3, 5), value("ly", F, 2, 1, 1, 4)]
    return (nodes, [value("v", F, 4), value("a", F, 6), value("b", F, 6), value("i", I, 4),
                    value("j", I, 4), value("x", F, 3, 5), value("t", F, 2, 1, 3)], outputs, init,
            feeds)


def old():
    """Opset 9: what has become an operand is an attribute; softmax goes over all axes from one on.
    The nodes are not in order."""
    nodes = [
        node("Softmax", "q", "s", axis=1), node("LogSoftmax", "q", "ls"),
        node("Unsqueeze", "x", "u", axes=[0, 3]), node("Squeeze", "u", "q", axes=[0, 3]),
        node("Clip", "q", "c", min=-0.25, max=0.5), node("Clip", "q", "cl", min=-0.1),
        node("Pad", "q", "p", pads=[0, 1, 0, 0, 0, 2], value=1.5),
        node("Pad", "q", "pr", pads=[0, 0, 2, 0, 0, 1], mode="reflect"),
        node("Slice", "q", "sl", axes=[1, 2], starts=[1, -3], ends=[2**31 - 1, -1]),
        node("ReduceSum", "q", "rs", axes=[1], keepdims=0),
        node("Dropout", "q", "d", ratio=0.5), node("TopK", "q", "t ti", k=2, axis=2),
        node("Split", "q", "sa sb", axis=2, split=[1, 4]),
        node("Upsample", "i scales", "up", mode="nearest"),
        node("Upsample", "i scales", "ul", mode="linear"),
        node("Conv", "i w", "cv"), node("BatchNormalization", "cv g b m v", "bn"),
        node("MaxPool", "bn", "mp", kernel_shape=[2, 2]), node("Flatten", "mp", "y"),
        node("Scatter", "x at x", "sc", axis=2)]
    init = weights(scales=np.array([1, 1, 2, 3], "f4"), w=normal(4, 2, 3, 3), g=normal(4),
                   b=normal(4), m=normal(4), v=np.abs(normal(4)) + 0.1,
                   at=np.tile([4, 3, 2, 1, 0], (2, 3, 1)))
    three = ("s", "ls", "c", "cl", "p", "pr", "sl", "d", "t", "sa", "sb", "sc")
    outputs = [value(n, F, None, None, None) for n in three]
    outputs += [value(n, F, None, None, None, None) for n in ("up", "ul")]
    outputs += [value("rs", F, None, None), value("y", F, None, None),
                value("ti", I, None, None, None)]
    return (nodes, [value("x", F, 2, 3, 5), value("i", F, 1, 2, 5, 4)], outputs, init,
            dict(x=normal(2, 3, 5), i=normal(1, 2, 5, 4)), 9)


def older():
    """Opset 7: scales are an attribute."""
    nodes = [node("Upsample", "i", "up", mode="nearest", scales=[1.0, 1.0, 2.0, 2.0]),
             node("Hardmax", "i", "h", axis=2), node("ReduceMean", "up", "y", axes=[2, 3])]
    return (nodes, [value("i", F, 1, 2, 3, 4)],
            [value("h", F, None, None, None, None), value("y", F, None, None, None, None)], [],
            dict(i=normal(1, 2, 3, 4)), 7)


def old_resize():
    """Opset 10: scales alone, and the nearest element below, or above where it shrinks."""
    nodes = [node("Resize", "i more", "a", mode="nearest"),
             node("Resize", "i less", "b", mode="nearest"),
             node("Resize", "i more", "c", mode="linear")]
    return (nodes, [value("i", F, 1, 2, 6, 4)],
            [value(n, F, None, None, None, None) for n in "abc"],
            weights(more=np.array([1, 1, 2, 1.5], "f4"), less=np.array([1, 1, 0.5, 0.5], "f4")),
            dict(i=normal(1, 2, 6, 4)), 10)


def lengths():
    """Lengths that vary, in three sizes: attention over heads whose shapes the graph computes, a
    table's rows by place, a mask, an image of any size, scaled by numbers and to another's size."""
    nodes = [
        node("Shape", "x", "shape"), node("Gather", "shape i0", "batch"),
        node("Gather", "shape i1", "length"), node("Unsqueeze", "batch a0", "b1"),
        node("Unsqueeze", "length a0", "l1"), node("Concat", "b1 l1 heads", "split", axis=0),
        node("Range", "i0 length i1", "places"), node("Gather", "table places", "rows"),
        node("Add", "x rows", "h"), node("MatMul", "h wq", "q"), node("Reshape", "q split", "q4"),
        node("Transpose", "q4", "qt", perm=[0, 2, 1, 3]),
        node("Transpose", "q4", "kt", perm=[0, 2, 3, 1]), node("MatMul", "qt kt", "scores"),
        node("Concat", "l1 l1", "square", axis=0), node("ConstantOfShape", "square", "zeros"),
        node("Sub", "zeros one", "ones"), node("Trilu", "ones", "mask", upper=1),
        node("Add", "scores mask", "sm"), node("Softmax", "sm", "p"),
        node("MatMul", "p qt", "o"), node("Transpose", "o", "ot", perm=[0, 2, 1, 3]),
        node("Reshape", "ot same3", "y"),
        node("Concat", "b1 minus", "flat", axis=0), node("Reshape", "y flat", "yf"),
        node("Slice", "y start end a1", "middle"),
        node("ReduceMean", "middle a1", "mean", keepdims=0),
        node("Sub", "length i1", "before"), node("Gather", "y before", "last", axis=1),
        node("Div", "length i2", "halves"), node("Unsqueeze", "halves a0", "h1"),
        node("Slice", "y a0 h1 a1", "first"), node("Size", "x", "size"),
        node("Cast", "size", "sizef", to=F), node("Equal", "split minus4", "eq"),
        node("Where", "eq one4 split", "wh"), node("Expand", "token wh", "tk"),
        node("Conv", "i w", "c", strides=[2, 2], pads=[1, 1, 1, 1]),
        node("Resize", "c  twice", "up", mode="nearest"),
        node("Resize", "c  twice", "ul", mode="linear"),
        node("Resize", "c  twice", "uc", mode="cubic", cubic_coeff_a=-0.5),
        node("Shape", "i", "ishape"), node("Slice", "ishape two four", "hw"),
        node("Shape", "c", "cshape"), node("Slice", "cshape a0 two", "nc"),
        node("Concat", "nc hw", "target", axis=0),
        node("Resize", "c   target", "rs", mode="linear"),
        node("Resize", "c   target", "ra", mode="linear",
             coordinate_transformation_mode="align_corners"),
        node("Pad", "i pads", "pd", mode="reflect"), node("AveragePool", "i", "ap",
                                                          kernel_shape=[2, 2], strides=[2, 2]),
        node("GlobalAveragePool", "c", "g"), node("Flatten", "g", "gf")]
    for n in nodes:
        if n.op_type == "Resize":
            scaled = n.input[-1] == "twice"
            n.input[:] = ["c", "", "twice"] if scaled else ["c", "", "", "target"]
    init = weights(table=normal(16, 12), wq=normal(12, 12), i0=np.int64(0), i1=np.int64(1),
                   i2=np.int64(2), a0=np.array([0]), a1=np.array([1]), heads=np.array([3, 4]),
                   same3=np.array([0, 0, 12]), minus=np.array([-1]), start=np.array([1]),
                   end=np.array([-1]), one=np.float32(1), w=normal(4, 2, 3, 3),
                   twice=np.array([1, 1, 2, 1.5], "f4"), two=np.array([2]), four=np.array([4]),
                   pads=np.array([0, 0, 1, 2, 0, 0, 2, 1]), minus4=np.array([-1] * 4),
                   one4=np.array([1] * 4), token=normal(1, 1, 3, 1))
    feeds = [dict(x=normal(b, l, 12), i=normal(n, 2, h, w))
             for b, l, n, h, w in ((2, 5, 1, 8, 6), (1, 3, 2, 11, 7), (3, 16, 1, 5, 9))]
    outputs = [value(n, F, None, None) for n in ("yf", "mean", "last")]
    outputs += [value("first", F, None, None, None), value("sizef", F), value("gf", F, None, None)]
    outputs += [value(n, F, None, None, None, None)
                for n in ("tk", "up", "ul", "uc", "rs", "ra", "pd", "ap")]
    inputs = [value("x", F, "batch", "length", 12), value("i", F, None, 2, "h", "w")]
    return nodes, inputs, outputs, init, feeds, 18


def small(*shape):
    """Weights of 8 bits whose products no kernel of onnxruntime saturates."""
    return random.integers(-63, 64, shape).astype("i1")


def integers():
    """Products of integers, as onnxruntime.quantization writes them: with dynamic activations, of
    what was dequantised, and as operators of their own."""
    nodes = [
        node("DynamicQuantizeLinear", "x", "u us uz"),
        node("MatMulInteger", "u w uz wz", "i"), node("Cast", "i", "c", to=F),
        node("Mul", "us ws", "s"), node("Mul", "c s", "m"), node("Add", "m b", "dense"),
        node("DynamicQuantizeLinear", "p", "v vs vz"),
        node("ConvInteger", "v k vz", "ci", pads=[1, 1, 1, 1], strides=[2, 1]),
        node("Cast", "ci", "cc", to=F), node("Mul", "vs ks", "t"), node("Mul", "cc t", "cm"),
        node("Add", "cm cb", "conv"),
        node("QuantizeLinear", "p ps pz", "q"), node("DequantizeLinear", "q ps pz", "d"),
        node("DequantizeLinear", "k kss kz", "dk", axis=0),
        node("Conv", "d dk kb", "e", pads=[1, 0, 0, 1], dilations=[1, 2]),
        node("QuantizeLinear", "e es ez", "qe"), node("DequantizeLinear", "qe es ez", "de"),
        node("DequantizeLinear", "g gs", "dg"),
        node("Conv", "de dg", "depthwise", group=8, pads=[1, 1, 1, 1]),
        node("QLinearConv", "q ps pz k ks kz0 es ez ib", "ql", pads=[1, 1, 1, 1]),
        node("QuantizeLinear", "x ps pz", "qx"), node("DequantizeLinear", "qx ps pz", "dx"),
        node("DequantizeLinear", "w ws wz0", "dw"),
        node("Reshape", "dx flat", "fx"), node("QuantizeLinear", "fx ps pz", "qf"),
        node("DequantizeLinear", "qf ps pz", "df"), node("Gemm", "df dw b", "gemm"),
        node("Transpose", "qx", "qt", perm=[0, 2, 1]), node("DequantizeLinear", "qt ps pz", "dt"),
        node("MatMul", "dx dt", "pairs")]
    init = weights(
        w=small(24, 16), wz=np.zeros(16, "i1"), ws=np.full(16, 0.01, "f4"), b=normal(16),
        k=small(8, 6, 3, 3), ks=np.float32(0.02), cb=normal(8, 1, 1), ps=np.float32(0.02),
        pz=np.uint8(120), kss=(np.abs(normal(8)) / 50 + 0.01).astype("f4"), kz=np.zeros(8, "i1"),
        kb=normal(8), es=np.float32(0.07), ez=np.uint8(131), g=small(8, 1, 6, 6),
        gs=np.float32(0.01), kz0=np.int8(0), ib=random.integers(-999, 999, 8).astype("i4"),
        wz0=np.zeros(16, "i1"), flat=np.array([-1, 24]))
    U8 = TensorProto.UINT8
    outputs = [value("dense", F, 2, 3, 16), value("conv", F, None, None, None, None),
               value("qe", U8, None, None, None, None),
               value("depthwise", F, None, None, None, None),
               value("ql", U8, None, None, None, None), value("gemm", F, 6, 16),
               value("pairs", F, 2, 3, 3)]
    return (nodes, [value("x", F, 2, 3, 24), value("p", F, 2, 6, 9, 7)], outputs, init,
            dict(x=normal(2, 3, 24), p=normal(2, 6, 9, 7)))


def ms(op, inputs, outputs, **attributes):
    """A node of com.microsoft; _ is an operand that is absent."""
    return helper.make_node(op, ["" if i == "_" else i for i in inputs.split()],
                            ["" if o == "_" else o for o in outputs.split()],
                            domain="com.microsoft", **attributes)


def microsoft():
    """onnxruntime's own operators."""
    nodes = [
        ms("BiasGelu", "x h", "bias_gelu"), ms("FastGelu", "x h", "fast_gelu"),
        ms("QuickGelu", "x", "quick_gelu"),
        ms("FusedMatMul", "x y", "fused", transB=1, alpha=0.5),
        ms("SkipLayerNormalization", "x y h b h", "skip _ _ sum", epsilon=1e-5),
        ms("SkipSimplifiedLayerNormalization", "x y h", "skip_rms", epsilon=1e-5),
        ms("EmbedLayerNormalization", "ids segments words places kinds h b mask", "embed count",
           epsilon=1e-5),
        ms("Attention", "x qkv qkvb mask", "attention", num_heads=4),
        ms("Attention", "x qkv qkvb _ past", "cached present", num_heads=4, unidirectional=1),
        ms("MultiHeadAttention", "x y y hhh", "heads", num_heads=4),
        ms("RotaryEmbedding", "x at cosines sines", "rotated", interleaved=1),
        ms("MatMulNBits", "wide codes scales zeros", "bits", K=128, N=5, bits=4, block_size=32),
        ms("DynamicQuantizeMatMul", "x w ws wz h", "dynamic"),
        ms("QLinearAdd", "qa as az qb as az cs cz", "qadd"),
        ms("QLinearGlobalAveragePool", "qa as az cs cz", "qpool"),
        ms("QLinearConcat", "cs cz qa as az qb as az", "qconcat", axis=1),
        ms("QGemm", "qg as az w ws wz ib cs cz", "qgemm")]
    half = normal(9, 2, scale=2)
    init = weights(
        h=1 + normal(16), b=normal(16), words=normal(20, 16), places=normal(9, 16),
        kinds=normal(2, 16), qkv=normal(16, 48), qkvb=normal(48), hhh=normal(48),
        cosines=np.cos(half), sines=np.sin(half),
        codes=random.integers(0, 256, (5, 4, 16)).astype("u1"), scales=np.abs(normal(5, 4)),
        zeros=random.integers(0, 256, (5, 2)).astype("u1"), w=small(16, 16), wz=np.int8(0),
        ws=np.float32(0.02), cs=np.float32(0.05), cz=np.uint8(99), az=np.uint8(120),
        ib=random.integers(-999, 999, 16).astype("i4"), **{"as": np.float32(0.03)})
    U8, I32 = TensorProto.UINT8, TensorProto.INT32
    outputs = [value(n, F, *[None] * 3) for n in
               ("bias_gelu", "fast_gelu", "quick_gelu", "fused", "skip", "sum", "skip_rms", "embed",
                "attention", "cached", "heads", "rotated", "bits", "dynamic")]
    outputs += [value("present", F, *[None] * 5), value("count", I32, None), value("qgemm", U8, 3, 16)]
    outputs += [value(n, U8, *[None] * 4) for n in ("qadd", "qpool", "qconcat")]
    inputs = [value("x", F, 2, 5, 16), value("y", F, 2, 5, 16), value("ids", I32, 2, 5),
              value("segments", I32, 2, 5), value("mask", I32, 2, 5),
              value("past", F, 2, 2, 4, 3, 4), value("at", I, 2, 5), value("wide", F, 2, 3, 128),
              value("qa", U8, 2, 3, 4, 4), value("qb", U8, 2, 3, 4, 4), value("qg", U8, 3, 16)]
    byte = lambda *shape: random.integers(0, 256, shape).astype("u1")
    feeds = dict(x=normal(2, 5, 16), y=normal(2, 5, 16),
                 ids=random.integers(0, 20, (2, 5)).astype("i4"),
                 segments=random.integers(0, 2, (2, 5)).astype("i4"),
                 mask=np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], "i4"), past=normal(2, 2, 4, 3, 4),
                 at=random.integers(0, 9, (2, 5)), wide=normal(2, 3, 128), qa=byte(2, 3, 4, 4),
                 qb=byte(2, 3, 4, 4), qg=byte(3, 16))
    return nodes, inputs, outputs, init, feeds


def counted():
    """Results whose length depends on values, and what goes on with them; in three sizes."""
    nodes = [
        node("Greater", "x limit", "mask"), node("NonZero", "mask", "at"),
        node("Transpose", "at", "places", perm=[1, 0]), node("GatherND", "x places", "large"),
        node("Mul", "large large", "squares"), node("ReduceSum", "squares", "sum", keepdims=0),
        node("ReduceMax", "large", "max", keepdims=0),
        node("Slice", "places zero one axis1", "first"), node("Reshape", "first minus", "rows"),
        node("Gather", "x rows", "picked"), node("Shape", "places", "shape"),
        node("Compress", "x keep", "compressed", axis=1), node("Compress", "x flags", "flat"),
        node("Cast", "x10", "whole", to=I), node("Unique", "whole", "u ui uv uc"),
        node("Mul", "x ten", "x10"), node("Unique", "whole", "o oi ov oc", sorted=0),
        node("TopK", "v k", "t ti", axis=0), node("TopK", "v k", "s si", axis=0, largest=0),
        node("NonMaxSuppression", "boxes scores some half low", "chosen"),
        node("NonMaxSuppression", "boxes scores all half", "every", center_point_box=1),
        node("Gather", "chosen axis1", "one_column", axis=1)]
    init = weights(limit=np.float32(0.2), zero=np.array([0]), one=np.array([1]),
                   axis1=np.array([1]), minus=np.array([-1]), ten=np.float32(4),
                   some=np.array([3]), all=np.array([2**63 - 1]), half=np.float32(0.4),
                   low=np.float32(0.1))
    feeds = []
    for rows, count, classes in ((4, 9, 2), (7, 30, 3), (2, 1, 1)):
        corner = random.uniform(0, 3, (2, count, 2))
        boxes = np.concatenate([corner, corner + random.uniform(0.5, 2, (2, count, 2))], 2)
        feeds.append(dict(x=normal(rows, 5), v=normal(count), k=np.array([count // 2 + 1]),
                          keep=np.array([1, 0, 1, 1, 0], bool), boxes=boxes.astype("f4"),
                          flags=random.integers(0, 2, 5 * rows).astype(bool),
                          scores=random.uniform(0, 1, (2, classes, count)).astype("f4")))
    integers = ("at", "places", "rows", "shape", "u", "ui", "uv", "uc", "o", "oi", "ov", "oc", "ti",
                "si", "chosen", "every", "one_column")
    ranks = dict(at=2, places=2, chosen=2, every=2, one_column=2)
    outputs = [value(n, I, *[None] * ranks.get(n, 1)) for n in integers]
    outputs += [value(n, F, None) for n in ("large", "squares", "flat", "t", "s")]
    outputs += [value(n, F, None, None) for n in ("picked", "compressed")]
    outputs += [value("sum", F), value("max", F)]
    return (nodes, [value("x", F, "rows", 5), value("v", F, "count"), value("k", I, 1),
                    value("keep", B, 5), value("flags", B, "flags"),
                    value("boxes", F, 2, "boxes", 4), value("scores", F, 2, "classes", "boxes")],
            outputs, init, feeds, 18)


def ends():
    """The last ones of what is there, running sums from its end, extremes of few bits; a length
    that gets two axes; in three sizes."""
    own = np.random.default_rng(37)
    nodes = [
        node("NonZero", "x", "at"), node("Gather", "at minus", "last", axis=1),
        node("Squeeze", "at", "rows", axes=[0]), node("Gather", "w rows", "picked"),
        node("CumSum", "picked zero", "sums", reverse=1), node("GatherND", "picked two", "pair"),
        node("Gather", "picked i", "chosen"), node("Gather", "few rows", "bytes"),
        node("ReduceMax", "bytes", "max", keepdims=0),
        node("ReduceMin", "bytes", "min", keepdims=0),
        node("Shape", "w", "shape"), node("Gather", "shape zero", "length"),
        node("Unsqueeze", "length", "square", axes=[0, 1])]
    init = weights(minus=np.array(-1), zero=np.array(0), two=np.array([[-1], [-2]]))
    feeds = []
    for n in (6, 9, 2):
        x = own.permutation([1, 1] + [0] * (n // 2 - 1) + [2] * (n - n // 2 - 1)).astype("f4")
        feeds.append(dict(x=x, w=own.normal(0, 1, n).astype("f4"), i=np.array([0, -1, 1, -2]),
                          few=own.integers(-100, -1, n).astype("i1")))
    outputs = [value("last", I, 1), value("sums", F, None), value("pair", F, 2),
               value("chosen", F, 4), value("max", TensorProto.INT8),
               value("min", TensorProto.INT8), value("square", I, 1, 1)]
    return (nodes, [value("x", F, "n"), value("w", F, "n"), value("i", I, 4),
                    value("few", TensorProto.INT8, "n")], outputs, init, feeds, 12)


def varied():
    """What published networks do with lengths that vary: an axis that is squeezed if it has one
    element, the end of an axis as 1e9, a range of floats, lengths without names that must be
    equal, pieces whose lengths are equal in some sizes, and branches that fit no length, or some;
    in three sizes."""
    own = np.random.default_rng(38)
    graph = lambda nodes, *outputs: helper.make_graph(nodes, "branch", [], list(outputs))
    nodes = [
        node("Unsqueeze", "x axis1", "x3"), node("Conv", "x3 w", "c", strides=[4]),
        node("Shape", "c", "cs"), node("Gather", "cs two", "width"),
        node("Equal", "width one", "single"),
        node("If", "single", "s",
             then_branch=graph([node("Squeeze", "c axis2", "s1")], value("s1", F, None, None)),
             else_branch=graph([node("Identity", "c", "s2")], value("s2", F, None, None, None))),
        node("Add", "s z", "met"), node("GlobalAveragePool", "c", "g"),
        node("Concat", "c g", "joined", axis=1),
        node("Slice", "y starts ends axes", "rest"), node("Shape", "y", "ys"),
        node("Gather", "ys zero", "rows"), node("Cast", "rows", "rows_f", to=F),
        node("Range", "zero_f rows_f one_f", "range"), node("Add", "range half", "centres"),
        node("If", "flag", "never",
             then_branch=graph([node("Add", "x nine", "n1")], value("n1", F, None, None)),
             else_branch=graph([node("Neg", "x", "n2")], value("n2", F, None, None))),
        node("If", "flag", "even",
             then_branch=graph([node("Reshape", "x halves", "h"),
                                node("ReduceSum", "h axes12", "e1", keepdims=0)],
                               value("e1", F, None)),
             else_branch=graph([node("ReduceMax", "x", "e2", axes=[1], keepdims=0)],
                               value("e2", F, None)))]
    init = weights(w=own.normal(0, 1, (2, 1, 4)).astype("f4"), axis1=np.array([1]),
                   axis2=np.array([2]), one=np.array(1), two=np.array(2), zero=np.array(0),
                   starts=np.array([1, 0]), ends=np.array([10**9, 10**9]), axes=np.array([0, 1]),
                   zero_f=np.float32(0), one_f=np.float32(1), half=np.float32(0.5),
                   nine=np.ones((1, 9), "f4"), halves=np.array([0, 2, -1]),
                   axes12=np.array([1, 2]))
    feeds = [dict(x=own.normal(0, 1, (b, n)).astype("f4"), z=own.normal(0, 1, (b, 2)).astype("f4"),
                  y=own.normal(0, 1, (h, w)).astype("f4"), flag=np.array(False))
             for b, n, h, w in ((1, 4, 5, 3), (3, 5, 2, 7), (2, 7, 3, 3))]
    outputs = [value(n, F, None, None) for n in ("met", "rest", "never")]
    outputs += [value("joined", F, None, None, None), value("centres", F, None),
                value("even", F, None)]
    return (nodes, [value("x", F, "batch", "n"), value("z", F, None, 2), value("y", F, "?", "?"),
                    value("flag", B)], outputs, init, feeds, 17)


def published():
    """Quantised forms that onnxruntime's tools and other exporters write: attention, recurrent
    layers, tables, blocks of few bits; and attention over groups of heads with a cache."""
    own = np.random.default_rng(39)
    draw = lambda *shape: own.normal(0, 0.5, shape).astype("f4")
    u8 = lambda *shape: own.integers(0, 256, shape).astype("u1")
    i8 = lambda *shape: own.integers(-40, 40, shape).astype("i1")
    grouped = dict(num_heads=4, kv_num_heads=2, do_rotary=1)
    nodes = [
        ms("QAttention", "xq wqkv bqkv s s3 seen z z1", "qa", num_heads=3),
        ms("QAttention", "xq wqkv bqkv s s3 seen z z1 past", "qb present", num_heads=3,
           unidirectional=1),
        ms("DynamicQuantizeLSTM", "t lw lr lb    ls lz ls2 lz2", "lstm lh lc", hidden_size=5,
           direction="bidirectional"),
        ms("GroupQueryAttention", "q k v   ends total cos sin", "ga4 gk gv", **grouped),
        ms("GroupQueryAttention", "qkv   pk pv ends6 six cos sin", "gb gk5 gv5",
           local_window_size=2, softcap=3.0, rotary_interleaved=1, **grouped),
        ms("MatMulNBits", "x40 b40 s40", "n32", K=40, N=6, bits=4, block_size=32),
        ms("MatMulNBits", "x40 b48 s48 z48", "n16", K=40, N=6, bits=4, block_size=16),
        ms("QLinearWhere", "c xq s z yq s2 z2 s2 z", "w"),
        ms("QEmbedLayerNormalization", "ids segments tw tp ts g b mask s s2 s s2 s z z2 z z2 z",
           "e rows", epsilon=1e-5),
        ms("GatherBlockQuantized", "table ids ts32 tz32", "gbq", block_size=32, bits=4),
        node("Slice", "ga4 o0 o2 o1", "ga"), node("Slice", "gk5 o0 o3 o2", "gbk"),
        node("Slice", "gv5 o0 o3 o2", "gbv")]  # rows that are there
    for n, absent in ((2, "t lw lr lb . . . . ls lz ls2 lz2"), (3, "q k v . . ends total cos sin"),
                      (4, "qkv . . pk pv ends6 six cos sin")):
        nodes[n].input[:] = ["" if i == "." else i for i in absent.split()]
    init = weights(
        wqkv=i8(12, 36), bqkv=draw(36), s=np.float32(0.02), s2=np.float32(0.03), z=np.uint8(120),
        z2=np.uint8(7), z1=np.int8(3), s3=own.uniform(0.01, 0.02, 36).astype("f4"),
        lw=i8(2, 4, 20), lr=i8(2, 5, 20), lb=draw(2, 40), lz=np.zeros(2, "i1"),
        ls=np.array([0.004, 0.006], "f4"), ls2=np.array([0.005, 0.003], "f4"),
        lz2=np.zeros(2, "i1"), ends=np.array([3, 1], "i4"), total=np.array(4, "i4"),
        ends6=np.array([4, 2], "i4"), six=np.array(5, "i4"),
        cos=own.uniform(-1, 1, (9, 8)).astype("f4"),
        sin=own.uniform(-1, 1, (9, 8)).astype("f4"), b40=u8(6, 2, 16), s40=draw(12),
        b48=u8(6, 3, 8), s48=draw(18), z48=u8(12), tw=u8(20, 8), tp=u8(7, 8), ts=u8(2, 8), g=u8(8),
        b=u8(8), table=u8(20, 20), ts32=draw(20, 2), tz32=u8(20, 1), o0=np.array([0]),
        o1=np.array([1]), o2=np.array([2]), o3=np.array([3]))
    feeds = dict(xq=u8(2, 5, 12), yq=u8(2, 5, 12), c=own.integers(0, 2, (2, 5, 1)).astype(bool),
                 seen=np.array([[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]], "i4"), past=draw(2, 2, 3, 0, 4),
                 t=draw(6, 1, 4), q=draw(2, 4, 64), k=draw(2, 4, 32), v=draw(2, 4, 32),
                 qkv=draw(2, 1, 128), pk=draw(2, 2, 4, 16), pv=draw(2, 2, 4, 16), x40=draw(3, 40),
                 ids=own.integers(0, 20, (2, 4)).astype("i4"),
                 segments=own.integers(0, 2, (2, 4)).astype("i4"),
                 mask=np.array([[1, 1, 1, 0], [1, 1, 1, 1]], "i4"))
    kinds = {np.dtype("u1"): TensorProto.UINT8, np.dtype("i4"): TensorProto.INT32,
             np.dtype("f4"): F, np.dtype("?"): B}
    inputs = [value(n, kinds[x.dtype], *x.shape) for n, x in feeds.items()]
    ranks = dict(qa=3, qb=3, present=5, lstm=4, lh=3, lc=3, ga=3, gk=4, gv=4, gb=3, gbk=4, gbv=4,
                 n32=2, n16=2, e=3, gbq=3)
    outputs = [value(n, F, *[None] * r) for n, r in ranks.items()]
    outputs += [value("w", TensorProto.UINT8, None, None, None),
                value("rows", TensorProto.INT32, 2)]
    return nodes, inputs, outputs, init, feeds


def functions():
    """Functions that call each other, with attributes of the call, of the function, and without;
    operands that are absent; a branch within one; one function for two calls."""
    def function(name, inputs, outputs, nodes, attributes=(), defaults=()):
        opsets = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
        return helper.make_function("own", name, inputs.split(), outputs.split(), nodes, opsets,
                                    attributes, [helper.make_attribute(*d) for d in defaults])

    def refers(node_, **attributes):
        for name, (other, kind) in attributes.items():
            a = node_.attribute.add(name=name, type=kind)
            a.ref_attr_name = other
        return node_

    leaky = refers(node("LeakyRelu", "x", "y"), alpha=("slope", onnx.AttributeProto.FLOAT))
    level = refers(node("Constant", "", "level"),
                   value_float=("floor", onnx.AttributeProto.FLOAT))
    inner = [level, refers(own("Leak", "x", "l"), slope=("slope", onnx.AttributeProto.FLOAT)),
             node("Clip", "l level high", "c"), node("ReduceSum", "c", "sum", keepdims=0),
             node("Greater", "sum level", "more"),
             node("If", "more", "y",
                  then_branch=helper.make_graph([node("Neg", "c", "n")], "a", [],
                                                [value("n", F, "batch", 4)]),
                  else_branch=helper.make_graph([node("Add", "c x", "n")], "b", [],
                                                [value("n", F, "batch", 4)]))]
    nodes = [own("Bound", "x one", "a", slope=0.25), own("Bound", "a", "b", slope=0.5, floor=-0.5),
             own("Bound", "b ", "c"), own("Leak", "w", "k", slope=0.1), node("Add", "c k", "y")]
    listed = [function("Bound", "x high", "y", inner, (),
                       (("slope", 0.75), ("floor", -1.0))),
              function("Leak", "x", "y", [leaky], ["slope"])]
    return (nodes, [value("x", F, "batch", 4)], [value("y", F, "batch", 4)],
            weights(one=np.float32(1), w=normal(4)), dict(x=normal(3, 4, scale=1)), 18, listed)


def small_types():
    """Integers of two and four bits, floats of four and eight: weights of files, and casts."""
    floats = dict(fn=TensorProto.FLOAT8E4M3FN, fnuz=TensorProto.FLOAT8E4M3FNUZ,
                  e5m2=TensorProto.FLOAT8E5M2, e5m2fnuz=TensorProto.FLOAT8E5M2FNUZ,
                  e2m1=TensorProto.FLOAT4E2M1, e8m0=TensorProto.FLOAT8E8M0)
    ints = dict(i4=TensorProto.INT4, u4=TensorProto.UINT4, i2=TensorProto.INT2,
                u2=TensorProto.UINT2)
    nodes, outputs = [node("Clip", "x low high", "t")], []
    for name, kind in (floats | ints).items():
        of = "whole" if name in ints else "t" if name == "e8m0" else "x"
        nodes += [node("Cast", of, f"{name}_q", to=kind),
                  node("Reshape", f"{name}_q shape", f"{name}_r"),
                  node("Cast", f"{name}_r", f"{name}_y", to=F)]
        outputs.append(value(f"{name}_y", F, 4, 8))
    for name in ("fn", "fnuz", "e5m2", "e5m2fnuz"):
        nodes += [node("Cast", "x", f"{name}_o", to=floats[name], saturate=0),
                  node("Cast", f"{name}_o", f"{name}_z", to=F)]
        outputs.append(value(f"{name}_z", F, 32))
    nodes += [node("DequantizeLinear", "w scales zeros", "wd", axis=0, block_size=2),
              node("MatMul", "wd v", "m"), node("QuantizeLinear", "t half i4_zero", "q"),
              node("DequantizeLinear", "q half i4_zero", "d"),
              node("QuantizeLinear", "t half", "f", output_dtype=floats["fn"]),
              node("DequantizeLinear", "f half", "e"), node("DequantizeLinear", "g half", "h")]
    outputs += [value("m", F, 5), value("d", F, 32), value("e", F, 32), value("h", F, 6)]
    tensor = lambda name, kind, shape, values: helper.make_tensor(name, kind, shape, values)
    init = weights(shape=np.array([4, 8]), scales=np.abs(normal(3, 4)) + 0.1, v=normal(4),
                   half=np.float32(0.5), low=np.float32(-99), high=np.float32(300))
    init += [tensor("w", ints["i4"], [5, 4], random.integers(-8, 8, 20)),
             tensor("zeros", ints["i4"], [3, 4], random.integers(-3, 3, 12)),
             tensor("i4_zero", ints["i4"], [], [2]),
             tensor("g", floats["e5m2"], [6], [0.5, -3, 1e-5, 57344, -0.0, 7])]
    x = np.concatenate([normal(16, scale=20), normal(8, scale=0.01), np.array(
        [0, -0.0, 447, 463, 1e6, -1e6, np.inf, -np.inf], "f4")]).astype("f4")
    feeds = dict(x=x, whole=random.integers(-20, 20, 32))
    return (nodes, [value("x", F, 32), value("whole", I, 32)], outputs, init, feeds, 25)


def sampling():
    """GridSample in its modes, with grids that lead out of an image; RoiAlign, AffineGrid and
    DeformConv."""
    nodes, outputs = [], []
    for pads in ("zeros", "border", "reflection"):
        for mode in ("linear", "nearest", "cubic"):
            for corners in (0, 1):
                name = f"{pads}_{mode}_{corners}"
                nodes.append(node("GridSample", "x grid", name, mode=mode, padding_mode=pads,
                                  align_corners=corners))
                outputs.append(value(name, F, 2, 2, 3, 3))
    nodes += [
        node("GridSample", "v grid3", "deep", padding_mode="border"),
        node("RoiAlign", "x rois which", "avg", output_height=2, output_width=3, sampling_ratio=2,
             spatial_scale=0.5),
        node("RoiAlign", "x rois which", "max", output_height=3, output_width=2, sampling_ratio=1,
             mode="max", coordinate_transformation_mode="output_half_pixel"),
        node("RoiAlign", "x rois which", "largest", output_height=3, output_width=2, mode="max",
             spatial_scale=1.5),
        node("RoiAlign", "x rois which", "edges", output_height=1, output_width=2, mode="max",
             coordinate_transformation_mode="output_half_pixel"),
        node("AffineGrid", "theta size", "points"), node("GridSample", "x points", "moved"),
        node("AffineGrid", "theta3 size3", "points3", align_corners=1),
        node("DeformConv", "x4 w offsets b mask", "d", pads=[1, 1, 1, 1], strides=[2, 1], group=2,
             offset_group=2)]
    outputs += [value("deep", F, 1, 2, 2, 3, 2), value("avg", F, 4, 2, 2, 3),
                value("max", F, 4, 2, 3, 2), value("largest", F, 4, 2, 3, 2),
                value("edges", F, 4, 2, 1, 2), value("moved", F, 2, 2, 4, 3),
                value("points3", F, 1, 2, 3, 2, 3), value("d", F, 1, 6, 3, 4)]
    init = weights(which=np.array([0, 1, 1, 0]), size=np.array([2, 2, 4, 3]),
                   size3=np.array([1, 2, 2, 3, 2]), w=normal(6, 2, 3, 3), b=normal(6),
                   rois=np.array([[0, 0, 5, 6], [2, 1, 9, 12], [-3, -2, 1, 3], [4, 4, 30, 30]],
                                 "f4"))
    feeds = dict(x=normal(2, 2, 4, 5), grid=normal(2, 3, 3, 2, scale=1), v=normal(1, 2, 3, 4, 2),
                 grid3=normal(1, 2, 3, 2, 3, scale=1), theta=normal(2, 2, 3),
                 theta3=normal(1, 3, 4), x4=normal(1, 4, 5, 4),
                 offsets=normal(1, 36, 3, 4, scale=1), mask=normal(1, 18, 3, 4))
    inputs = [value(name, F, *x.shape) for name, x in feeds.items()]
    return nodes, inputs, outputs, init, feeds, 20


def ml(op, inputs, outputs, **attributes):
    return node(op, inputs, outputs, domain="ai.onnx.ml", **attributes)


def tree_lists(prefix, trees):
    """The attributes of trees, each nested tuples (feature, threshold, mode, yes, no) and, as
    leaves, lists of (id, weight)."""
    rows, weights_ = [], []

    def walk(tree, number, count):
        own = len([r for r in rows if r[0] == number])
        if isinstance(tree, list):
            rows.append([number, own, 0, 0.0, "LEAF", 0, 0, 0])
            weights_.extend((number, own, i, w) for i, w in tree)
            return own
        rows.append([number, own, tree[0], tree[1], "BRANCH_" + tree[2], 0, 0, own % 2])
        place = len(rows) - 1
        rows[place][5] = walk(tree[3], number, count)
        rows[place][6] = walk(tree[4], number, count)
        return own

    for number, tree in enumerate(trees):
        walk(tree, number, 0)
    names = ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids",
             "missing_value_tracks_true")
    lists = {f"nodes_{n}": [r[i] for r in rows] for i, n in enumerate(names)}
    names = ("treeids", "nodeids", "ids", "weights")
    return lists | {f"{prefix}_{n}": [r[i] for r in weights_] for i, n in enumerate(names)}


def trees():
    """Ensembles of trees in their forms, with NaN that goes either way."""
    leaf = lambda *ids: [(i, float(random.normal())) for i in ids]
    deep = lambda *ids: (0, 0.1, "LEQ", (1, -0.2, "LEQ", leaf(*ids), leaf(*ids)),
                         (2, 0.3, "LEQ", leaf(*ids), (3, 0.0, "LEQ", leaf(*ids), leaf(*ids))))
    mixed = (1, 0.2, "GT", (0, 0.0, "GTE", leaf(0), leaf(0)), (2, -0.1, "LT", leaf(0), leaf(0)))
    share = (2, 0.0, "LEQ", [(0, 0.2)], (1, 0.1, "LEQ", [(0, 0.3)], [(0, 0.4)]))
    nodes, outputs = [], []
    for how in ("AVERAGE", "MIN"):
        nodes.append(ml("TreeEnsembleRegressor", "x", how, n_targets=2, aggregate_function=how,
                        **tree_lists("target", [deep(0, 1), deep(0, 1), leaf(1, 0)])))
        outputs.append(value(how, F, "l", 2))
    nodes += [
        ml("TreeEnsembleRegressor", "x", "mixed", n_targets=1, base_values=[0.5],
           **tree_lists("target", [mixed, deep(0)])),
        ml("TreeEnsembleClassifier", "x", "l3 s3", classlabels_int64s=[4, 7, 9],
           post_transform="SOFTMAX", base_values=[0.1, 0.2, 0.3],
           **tree_lists("class", [deep(0, 1, 2), deep(2), deep(1, 0)])),
        ml("TreeEnsembleClassifier", "x", "lb sb", classlabels_int64s=[0, 1],
           post_transform="LOGISTIC", base_values=[0.25],
           **tree_lists("class", [deep(0), deep(0)])),
        ml("TreeEnsembleClassifier", "x", "lp sp", classlabels_int64s=[3, 1],
           **tree_lists("class", [share, share]))]
    outputs += [value("mixed", F, "l", 1)]
    for name, classes in (("3", 3), ("b", 2), ("p", 2)):
        outputs += [value(f"l{name}", I, "l"), value(f"s{name}", F, "l", classes)]
    x = normal(5, 4)
    x[3, 1] = x[4, 0] = np.nan
    return nodes, [value("x", F, "l", 4)], outputs, [], dict(x=x), 18


def linear_models():
    """Linear models, support vectors, and what prepares features."""
    floats = lambda *shape: [float(v) for v in normal(*shape).ravel()]
    vectors = dict(support_vectors=floats(6, 4), kernel_type="RBF", kernel_params=[0.4, 0.0, 3.0])
    classes3 = dict(classlabels_ints=[5, 1, 3], vectors_per_class=[2, 1, 3],
                    coefficients=floats(2, 6), rho=floats(3))
    classes2 = dict(classlabels_ints=[4, 6], vectors_per_class=[2, 4], coefficients=floats(6),
                    rho=[0.2])
    nodes = [
        ml("LinearRegressor", "x", "lr", targets=2, coefficients=floats(2, 4),
           intercepts=floats(2)),
        ml("LinearClassifier", "x", "cl cs", classlabels_ints=[2, 0, 8], coefficients=floats(3, 4),
           intercepts=floats(3), post_transform="SOFTMAX"),
        ml("LinearClassifier", "x", "bl bs", classlabels_ints=[0, 1], coefficients=floats(2, 4),
           intercepts=floats(2), post_transform="LOGISTIC"),
        ml("SVMRegressor", "x", "sr", n_supports=6, coefficients=floats(6), rho=[0.3], **vectors),
        ml("SVMRegressor", "x", "sp", n_supports=3, coefficients=floats(3), rho=[0.1],
           support_vectors=floats(3, 4), kernel_type="POLY", kernel_params=[0.5, 1.5, 3.0]),
        ml("SVMClassifier", "x", "vl vs", **classes3, **vectors),
        ml("SVMClassifier", "x", "tl ts", prob_a=[-1.5], prob_b=[0.1], **classes2, **vectors),
        ml("SVMClassifier", "x", "ul us", **classes2, **vectors),
        ml("Scaler", "x", "sc", offset=floats(4), scale=floats(4)),
        ml("Imputer", "g", "im", imputed_value_floats=floats(4), replaced_value_float=np.nan),
        ml("Binarizer", "x", "bi", threshold=0.1), ml("OneHotEncoder", "c", "oh",
                                                      cats_int64s=[0, 2, 3]),
        ml("FeatureVectorizer", "sc x", "fv", inputdimensions=[4, 4]),
        ml("ArrayFeatureExtractor", "x at", "af"),
        ml("LabelEncoder", "c", "le", keys_int64s=[3, 0, 9], values_floats=[0.5, 1.5, 2.5],
           default_float=-1.0),
        ml("LabelEncoder", "x", "lf", keys_floats=[0.25, np.nan], values_int64s=[7, 8])]
    nodes += [ml("Normalizer", "x", f"n{norm}", norm=norm) for norm in ("MAX", "L1", "L2")]
    shapes = dict(lr=2, cs=3, bs=2, sr=1, sp=1, vs=3, ts=2, us=2, sc=4, im=4, bi=4, fv=8, af=2, nMAX=4,
                  nL1=4, nL2=4)
    outputs = [value(name, F, None, columns) for name, columns in shapes.items()]
    outputs += [value(name, I, None) for name in ("cl", "bl", "vl", "tl", "ul")]
    outputs += [value("oh", F, None, 3), value("le", F, None), value("lf", I, None, 4)]
    x = normal(5, 4)
    x[1, 2] = 0.25
    g = np.where(x > 0.3, np.float32(np.nan), x)
    return (nodes, [value("x", F, "l", 4), value("g", F, "l", 4), value("c", I, "l")], outputs,
            weights(at=np.array([2, 0])), dict(x=x, g=g, c=np.array([3, 0, 2, 1, 0])), 18)


def sequences():
    """Lists that are split, changed, read, carried by a loop that is written out, and joined."""
    body = helper.make_graph(
        [node("SequenceAt", "s i", "e"), node("Neg", "e", "ne"),
         node("SequenceInsert", "s ne", "s2"), node("Identity", "c", "c2")], "body",
        [value("i", I), value("c", B),
         helper.make_tensor_sequence_value_info("s", F, None)],
        [value("c2", B), helper.make_tensor_sequence_value_info("s2", F, None)])
    nodes = [
        node("SplitToSequence", "x two", "pairs", axis=1),
        node("SequenceAt", "pairs minus", "last"), node("SequenceLength", "pairs", "length"),
        node("SplitToSequence", "x", "rows", axis=0, keepdims=0),
        node("Loop", "three yes rows", "more", body=body),
        node("SequenceErase", "more one", "fewer"), node("SequenceInsert", "fewer row zero", "all"),
        node("ConcatFromSequence", "all", "stacked", axis=0, new_axis=1),
        node("SplitToSequence", "x pieces", "parts", axis=1),
        node("ConcatFromSequence", "parts", "joined", axis=0)]
    nodes[-1].input[0] = "parts2"
    nodes[-1:-1] = [node("SequenceConstruct", "last last", "parts2")]
    init = weights(two=np.array(2), minus=np.array(-1), three=np.array(3), yes=np.array(True),
                   one=np.array(1), zero=np.array(0), row=normal(5), pieces=np.array([2, 3]))
    return (nodes, [value("x", F, 3, 5)], [value("length", I), value("stacked", F, 6, 5),
            value("joined", F, 6, 1)], init, dict(x=normal(3, 5)), 18)


REFERENCE = ("small_types",)  # what onnxruntime does not have: by onnx's own reference


def firsts():
    """The first ones of what is there, and pieces along another axis; in three sizes, of which the
    last one has none."""
    nodes = [
        node("NonZero", "x", "at"), node("Transpose", "at", "places"),
        node("Split", "places", "rows", axis=1), node("Squeeze", "rows axis1", "flat"),
        node("Gather", "w flat", "picked"), node("Slice", "picked i0 i3", "three"),
        node("Slice", "picked i1 i3", "two"), node("Slice", "flat i2 far", "rest"),
        node("Unsqueeze", "three axis1", "column"), node("Expand", "column shape", "wide")]
    init = weights(axis1=np.array([1]), i0=np.array([0]), i1=np.array([1]), i2=np.array([2]),
                   i3=np.array([3]), far=np.array([2**63 - 1]), shape=np.array([1, 2]))
    feeds = [dict(x=np.array(x, "f4"), w=normal(len(x)))
             for x in ([1, 0, 2, 3, 0, 4, 5, 0, 0], [0, 1, 0, 1], [0, 0, 0, 0, 0])]
    outputs = [value("rows", I, None, None), value("wide", F, None, 2), value("rest", I, None)]
    outputs += [value(n, F, None) for n in ("three", "two")]
    return (nodes, [value("x", F, "n"), value("w", F, "n")], outputs, init, feeds, 17)


def backs():
    """Slices whose places are computed of lengths and are below 0 in some runs, so that they count
    from the end, and pads by such lengths; in three sizes."""
    nodes = [
        node("Shape", "x", "shape"), node("Gather", "shape i1", "n"), node("Sub", "n i4", "less"),
        node("Sub", "i3 n", "back"),
        node("Slice", "x less far i1", "end"), node("Slice", "x i0 less i1", "begin"),
        node("Slice", "x back far i1", "tail"), node("Slice", "x less i0 i1 m1", "turned"),
        node("Slice", "x n back i1 m2", "every"), node("Slice", "x back less i1", "middle"),
        node("Sub", "m1 n", "before"), node("Sub", "before i1", "beyond"),
        node("Slice", "x before beyond i1 m1", "first"), node("Slice", "x m5 m5 i0 m1", "row"),
        node("Slice", "x m5 m5 i1 m1", "lone"),
        node("Max", "less i0", "pad"), node("Concat", "i0 pad i0 i1", "pads", axis=0),
        node("Pad", "x pads", "mirrored", mode="reflect"),
        node("Pad", "x pads", "wrapped", mode="wrap")]
    init = weights(i0=np.array([0]), i1=np.array([1]), i3=np.array([3]), i4=np.array([4]),
                   m1=np.array([-1]), m2=np.array([-2]), m5=np.array([-5]),
                   far=np.array([2**63 - 1]))
    outputs = [value(n, F, 2, None) for n in ("end", "begin", "tail", "turned", "every", "middle",
                                              "first", "lone", "mirrored", "wrapped")]
    outputs.append(value("row", F, 1, "n"))
    feeds = [dict(x=normal(2, n)) for n in (7, 3, 2)]
    return nodes, [value("x", F, 2, "n")], outputs, init, feeds, 19


def crossed():
    """Slices and pads whose beginning lies behind their end, or behind the axis, in some runs; in
    three sizes."""
    cuts = {"n_m": "n m", "m_n": "m n", "m_2": "m i2", "i2_m": "i2 m", "m_back": "m m3",
            "m_far": "m far", "m_diff": "m diff"}
    nodes = [node("Shape", "x", "n"), node("Shape", "z", "m"), node("Sub", "n m", "diff"),
             node("Neg", "m", "less"), node("Concat", "less i2", "pads", axis=0),
             node("Pad", "x pads", "padded"),
             *[node("Slice", f"x {ends} i0", f"s_{name}") for name, ends in cuts.items()],
             node("Slice", "x m far i0 i2", "second"), node("Slice", "x m n i0 m1", "turned"),
             node("Slice", "x n m i0 m2", "every")]
    init = weights(i0=np.array([0]), i2=np.array([2]), m1=np.array([-1]), m2=np.array([-2]),
                   m3=np.array([-3]), far=np.array([2**62]))
    names = [f"s_{name}" for name in cuts] + ["padded", "second", "turned", "every"]
    feeds = [dict(x=normal(n), z=normal(m)) for n, m in ((3, 5), (5, 3), (8, 2))]
    return (nodes, [value("x", F, "n"), value("z", F, "m")], [value(n, F, None) for n in names],
            init, feeds, 19)


def signals():
    """Fourier transforms of windows, and what is computed of spectra."""
    own = np.random.default_rng(40)
    nodes = [
        node("Unsqueeze", "x two", "x3"), node("STFT", "x3 step window size", "s"),
        node("ReduceL2", "s minus", "frames", keepdims=0),
        node("Transpose", "frames", "spectrum", perm=[0, 2, 1]),
        node("CumSum", "spectrum one", "sums"), node("TopK", "spectrum three", "t ti", axis=1),
        node("Einsum", "spectrum sums", "c", equation="bft,bgt->bfg"),
        node("Trilu", "c", "lower", upper=0), node("GatherElements", "c i", "g", axis=1),
        node("ReduceLogSumExp", "spectrum axis1", "energy", keepdims=0),
        node("ArgMax", "spectrum", "pitch", axis=1, keepdims=0),
        node("DFT", "x3  one", "f", onesided=1), node("ReduceL2", "f minus", "whole", keepdims=0)]
    nodes[11].input[:] = ["x3", "", "one"]
    init = weights(two=np.array([2]), step=np.array(8), size=np.array(16), one=np.array(1),
                   window=np.hanning(16).astype("f4"), minus=np.array([-1]), three=np.array([3]),
                   axis1=np.array([1]))
    feeds = dict(x=own.normal(0, 1, (2, 64)).astype("f4"), i=own.integers(0, 9, (2, 3, 9)))
    ranks = dict(spectrum=3, sums=3, t=3, lower=3, g=3, energy=2, whole=2)
    outputs = [value(n, F, *[None] * r) for n, r in ranks.items()]
    outputs += [value("ti", I, None, None, None), value("pitch", I, None, None)]
    return nodes, [value("x", F, 2, 64), value("i", I, 2, 3, 9)], outputs, init, feeds, 20


def channels():
    """Images that are cut, split and joined between convolutions."""
    cut = dict(zero=np.array([0]), four=np.array([4]), one=np.array([1]),
               back=np.array([-1]), none=np.array([-100]), corner=np.array([1, 1]),
               end=np.array([-1, 100]), both=np.array([2, 3]), steps=np.array([1, 2]),
               parts=np.array([1, 3]))
    nodes = [
        node("Conv", "x w", "c", pads=[1, 1, 1, 1]), node("Relu", "c", "r"),
        node("Slice", "r zero four one", "a"), node("Slice", "r back none one back", "b"),
        node("Slice", "r corner end both steps", "small"), node("Split", "a parts", "p q", axis=1),
        node("Split", "r rows", "upper lower", axis=2), node("Concat", "upper lower", "s", axis=2),
        node("Mul", "q q", "qq"), node("Concat", "b p qq s", "j", axis=1),
        node("Conv", "j v", "y", pads=[0, 1, 0, 1], strides=[2, 1])]
    init = weights(w=normal(6, 3, 3, 3), v=normal(5, 16, 3, 3, scale=0.2), rows=np.array([2, 5]),
                   **cut)
    return (nodes, [value("x", F, "batch", 3, 7, 6)],
            [value("y", F, None, None, None, None), value("small", F, None, None, None, None)],
            init, dict(x=normal(3, 3, 7, 6)))


def make(name, parts):
    nodes, inputs, outputs, init, feeds, *rest = parts
    opset, listed = (*rest, 18, [])[0], rest[1] if len(rest) > 1 else []
    graph = helper.make_graph(nodes, name, inputs, outputs, init)
    domains = [helper.make_opsetid("", opset)]
    if name in ("microsoft", "published", "any_size", "moved"):
        domains.append(helper.make_opsetid("com.microsoft", 1))
    if name in ("trees", "linear_models"):
        domains.append(helper.make_opsetid("ai.onnx.ml", 3))
    if listed:
        domains.append(helper.make_opsetid("own", 1))
    model = helper.make_model(graph, opset_imports=domains, ir_version=8 if opset < 21 else 11,
                              functions=listed)
    unchecked = ("old", "counted", "microsoft", "published", "any_size", "moved")
    if name not in unchecked:  # out of order; others' operators
        onnx.checker.check_model(model)
    sets = feeds if isinstance(feeds, list) else [feeds]
    for i, feeds in enumerate(sets):
        make_set(name, model, feeds, outputs, "" if i == 0 else f".{i + 1}")


def in_order(model):
    """A copy with the nodes in order."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    names = {x.name for x in [*copy.graph.input, *copy.graph.initializer]} | {""}
    left = list(copy.graph.node)
    del copy.graph.node[:]
    while left:
        ready = next(n for n in left if names.issuperset(n.input))
        names.update(ready.output)
        left.remove(ready)
        copy.graph.node.append(ready)
    return copy


def run_onnxruntime(model, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(in_order(model).SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def make_set(name, model, feeds, outputs, number, keep=False):
    if name in REFERENCE:
        results = ReferenceEvaluator(model).run(None, feeds)
    else:
        results = run_onnxruntime(model, feeds)
    arrays = {f"in.{k}": v for k, v in feeds.items()}
    arrays |= {f"out.{o.name}": r for o, r in zip(outputs, results)}
    if name == "linear_models":  # onnxruntime's iteration for shares ends early
        p = 1 / (1 + np.exp(-1.5 * arrays["out.us"][:, 1:] + 0.1))
        arrays["out.ts"] = np.concatenate([p, 1 - p], 1)
    if name == "stft_dft":  # onnxruntime's DFT of 640 points is right to four digits
        arrays["out.m"] = np.abs(np.fft.rfft(feeds["x"])).astype("f4")
    if name == "corners":  # onnxruntime leaves out regions of axes whose length stays
        arrays["out.rh"] = ReferenceEvaluator(model).run(["rh"], feeds)[0]
    np.savez(OUT / f"{name}{number}.npz", **arrays)
    if keep:
        return
    if name == "outside":
        onnx.save(model, OUT / "outside.onnx", save_as_external_data=True, location="outside.data",
                  size_threshold=0)
    else:
        (OUT / f"{name}.onnx").write_bytes(model.SerializeToString())
        (SEEDS / name).write_bytes(model.SerializeToString())


def run_case(name, feeds):
    """Goldens of a file that is kept: what torch exported of a small module."""
    for i, one in enumerate(feeds):
        model = onnx.load(OUT / f"{name}.onnx")
        number = "" if i == 0 else f".{i + 1}"
        make_set(name, model, one, model.graph.output, number, keep=True)


KEPT = {  # files that are not made here, and inputs of theirs
    "det_nms": lambda: [dict(x=normal(1, 3, h, w, scale=1)) for h, w in
                        ((64, 48), (40, 96), (8, 8))],
    "lstm_lengths": lambda: [dict(x=normal(5, 2, 3), len=np.array([3, 5], "i4"))],
    "maxpool_indices": lambda: [dict(x=normal(1, 3, 11, 11))],
    "model_function": lambda: [dict(x=normal(2))],
    "stft_dft": lambda: [dict(x=normal(1, 640), i=np.array([[3, 0, 32, 7, 7]]))],
}


def update_manifest():
    path = FIXTURES / "MANIFEST.sha256"
    rows = dict(line.split("  ")[::-1] for line in path.read_text().splitlines())
    rows = {name: digest for name, digest in rows.items() if not name.startswith("onnx/")}
    for file in sorted(OUT.glob("*")) + [FIXTURES / "README.md"]:
        rows[str(file.relative_to(FIXTURES))] = hashlib.sha256(file.read_bytes()).hexdigest()
    path.write_text("".join(f"{rows[name]}  {name}\n" for name in sorted(rows)))


def peepholes():
    """An LSTM whose gates see the cell, and rows and columns that are there once."""
    nodes = [helper.make_node("LSTM", ["x", "w", "r", "b", "", "", "", "p"], ["y", "h", "c"],
                              hidden_size=4, direction="bidirectional"),
             node("Mul", "v two", "v2"), node("Cast", "v2", "whole", to=I),
             node("Unique", "whole", "u ui uv uc", axis=0),
             node("Unique", "v", "o oi ov oc", axis=1, sorted=0)]
    init = weights(w=normal(2, 16, 3), r=normal(2, 16, 4), b=normal(2, 32), p=normal(2, 12),
                   two=np.float32(2))
    outputs = [value("y", F, *[None] * 4), value("h", F, None, None, None),
               value("c", F, None, None, None), value("u", I, None, 3), value("o", F, None, None)]
    outputs += [value(n, I, None) for n in ("ui", "uv", "uc", "oi", "ov", "oc")]
    feeds = [dict(x=normal(5, 2, 3), v=random.integers(-1, 2, (rows, 3)).astype("f4"))
             for rows in (9, 30, 1)]
    return nodes, [value("x", F, 5, 2, 3), value("v", F, "rows", 3)], outputs, init, feeds


def ratios():
    """An image that gets a size by a ratio of its lengths, and lengths that are multiples of 4, as
    torchvision's detectors have it; the k of TopK by a least length; in three sizes."""
    nodes = [
        node("Shape", "x", "shape"), node("Slice", "shape i1 far i0", "sides"),
        node("ReduceMin", "sides", "low", keepdims=0), node("ReduceMax", "sides", "high"),
        node("Cast", "low", "lowf", to=F), node("Cast", "high", "highf", to=F),
        node("Reciprocal", "lowf", "lowi"), node("Mul", "lowi min", "by_low"),
        node("Div", "max highf", "by_high"), node("Min", "by_low by_high", "ratio"),
        node("Cast", "sides", "sidesf", to=F), node("Mul", "sidesf ratio", "scaled"),
        node("Floor", "scaled", "floor"), node("Cast", "floor", "small", to=I),
        node("Ceil", "scaled", "ceil"), node("Cast", "ceil", "large", to=I),
        node("Concat", "one3 small", "sizes", axis=0), node("Unsqueeze", "x i0", "x4"),
        helper.make_node("Resize", ["x4", "", "", "sizes"], ["resized"], mode="linear",
                         coordinate_transformation_mode="half_pixel"),
        node("Div", "floor four", "quarters"), node("Ceil", "quarters", "blocks"),
        node("Mul", "blocks four", "padded"), node("Cast", "padded", "whole", to=I),
        node("Sub", "whole small", "more"), node("Gather", "more one_0", "more_h", axis=0),
        node("Gather", "more one_1", "more_w", axis=0),
        node("Concat", "i0 more_w i0 more_h i0 i0 i0 i0", "pads", axis=0),
        node("Reshape", "pads pairs", "pads2"), node("Slice", "pads2 minus least i0 minus", "turned"),
        node("Transpose", "turned", "columns", perm=[1, 0]),
        node("Reshape", "columns minus", "all_pads"),
        helper.make_node("Pad", ["resized", "all_pads", ""], ["y"]),
        node("Mul", "y ratio", "z0"), node("Neg", "scaled", "negative"),
        node("Add", "negative half", "sums"), node("Sub", "sums half", "numbers"),
        node("Max", "numbers half", "most"), node("ReduceSum", "scaled", "sum", keepdims=0),
        node("Sub", "z0 sum", "z"), node("Concat", "large five", "lengths", axis=0),
        node("ReduceMin", "lengths", "k", keepdims=1), node("Reshape", "resized minus", "flat"),
        node("TopK", "flat k", "best best_at")]
    init = weights(i0=np.array([0]), i1=np.array([1]), far=np.array([2**63 - 1]),
                   min=np.float32(12), max=np.float32(20), one3=np.array([1, 3]),
                   four=np.float32(4), one_0=np.array([0]), one_1=np.array([1]),
                   pairs=np.array([-1, 2]), minus=np.array([-1]), least=np.array([1 - 2**63]),
                   half=np.float32(0.5), five=np.array([5]))
    feeds = [dict(x=normal(3, h, w)) for h, w in ((14, 10), (7, 31), (12, 12))]
    outputs = [value("y", F, *[None] * 4), value("z", F, *[None] * 4), value("numbers", F, 2),
               value("most", F, 2), value("large", I, 2), value("best", F, None),
               value("best_at", I, None)]
    return nodes, [value("x", F, 3, "h", "w")], outputs, init, feeds, 17


def regions():
    """Boxes as torchvision's detectors choose and pool them: shapes of what is counted, a branch
    without boxes, parts of several levels that are put into one; in three sizes, of which the last
    has none."""
    graph = lambda nodes, name, out: helper.make_graph(nodes, name, [], [value(out, I, None)])
    none = helper.make_node("Constant", [], ["none"], value=numpy_helper.from_array(
        np.zeros(0, "i8"), "none"))
    chosen = [node("ReduceMax", "boxes", "end", keepdims=0), node("Add", "boxes end", "moved"),
              node("Unsqueeze", "moved i0", "moved3"), node("Unsqueeze", "scores i01", "scores3"),
              node("NonMaxSuppression", "moved3 scores3 many half", "all"),
              node("Gather", "all two", "column", axis=1), node("Squeeze", "column i1", "keep")]
    level = lambda i: [
        node("Equal", f"levels level{i}", f"at{i}"), node("NonZero", f"at{i}", f"places{i}"),
        node("Squeeze", f"places{i} i0", f"rows{i}"), node("Gather", f"rois rows{i}", f"rois{i}"),
        node("Gather", f"zeros rows{i}", f"zeros{i}"), node("Squeeze", f"zeros{i} i1", f"none{i}"),
        node("Cast", f"none{i}", f"images{i}", to=I),
        node("RoiAlign", f"features{i} rois{i} images{i}", f"pooled{i}", output_height=2,
             output_width=2, spatial_scale=1 / (1 + i), sampling_ratio=2,
             coordinate_transformation_mode="output_half_pixel"),
        node("Shape", f"pooled{i}", f"shape{i}"), node("Reshape", f"rows{i} four", f"rows4{i}"),
        node("Expand", f"rows4{i} shape{i}", f"index{i}"),
        node("ScatterElements", f"sum{i} index{i} pooled{i}", f"sum{i + 1}")]
    nodes = [
        node("Greater", "likely low", "mask"), node("NonZero", "mask", "at"),
        node("Squeeze", "at i0", "rows"), node("Gather", "all_boxes rows", "boxes"),
        node("Gather", "likely rows", "scores"), node("Shape", "boxes", "size"),
        node("ReduceProd", "size", "numbers", keepdims=0), node("Equal", "numbers zero", "empty"),
        helper.make_node("If", ["empty"], ["kept"], then_branch=graph([none], "then", "none"),
                         else_branch=graph(chosen, "else", "keep")),
        node("Slice", "kept i0 limit i0", "first"), node("Gather", "boxes first", "rois"),
        node("Concat", "rois", "joined", axis=0), node("Slice", "joined i0 i1 i1", "column0"),
        node("Shape", "column0", "shape_of"), node("ConstantOfShape", "shape_of", "zeros"),
        node("Squeeze", "column0 i1", "flat0"), node("Floor", "flat0", "floor0"),
        node("Mod", "floor0 twof", "levelsf", fmod=1), node("Cast", "levelsf", "levels", to=I),
        node("Shape", "levels", "counted"), node("Concat", "counted channels", "whole", axis=0),
        node("ConstantOfShape", "whole", "sum0"), *level(0), *level(1),
        node("Gather", "counted zero", "count", axis=0), node("Mul", "count zero1", "nothing"),
        node("Add", "count nothing", "found"), node("Unsqueeze", "found i0", "end1"),
        node("Slice", "sum2 i0 end1 i0", "pooled"), node("Cast", "found", "found_f", to=F),
        node("Sqrt", "found_f", "root"), node("Div", "found_f twof", "half_count"),
        node("Ceil", "half_count", "halves")]
    init = weights(low=np.float32(0.3), i0=np.array([0]), i1=np.array([1]), i01=np.array([0, 1]),
                   zero=np.array(0), zero1=np.array(0), many=np.array([100]),
                   half=np.float32(0.5), two=np.array([2]), limit=np.array([6]),
                   twof=np.float32(2), level0=np.array(0), level1=np.array(1),
                   channels=np.array([2, 2, 2]), four=np.array([-1, 1, 1, 1]))
    feeds = []
    for count, scale in ((20, 1), (4, 1), (5, 0)):
        corner = random.uniform(0, 8, (count, 2))
        boxes = np.concatenate([corner, corner + random.uniform(1, 6, (count, 2))], 1)
        feeds.append(dict(all_boxes=boxes.astype("f4"), features0=normal(1, 2, 12, 12),
                          features1=normal(1, 2, 6, 6),
                          likely=(scale * random.uniform(0, 1, count)).astype("f4")))
    inputs = [value("all_boxes", F, "n", 4), value("likely", F, "n"),
              value("features0", F, 1, 2, 12, 12), value("features1", F, 1, 2, 6, 6)]
    outputs = [value("rois", F, None, 4), value("pooled", F, *[None] * 4), value("found", I),
               value("root", F), value("halves", F), value("first", I, None)]
    return nodes, inputs, outputs, init, feeds, 17


def signs():
    """Lengths by f32 that are below 0 for some sizes; in three of them."""
    row = lambda i, *nodes: [*nodes, node("Floor", f"real{i}", f"floor{i}"),
                             node("Cast", f"floor{i}", f"whole{i}", to=I)]
    nodes = [
        node("Shape", "x", "n"), node("Cast", "n", "nf", to=F),
        *row(0, node("Mul", "nf half", "halves"), node("Sub", "halves two", "real0")),
        node("Max", "whole0 zero", "y0"),
        *row(1, node("Sub", "most nf", "left"), node("Mul", "left part", "real1")),
        node("Max", "whole1 zero", "y1"),
        *row(2, node("Mul", "nf part", "parts"), node("Sub", "parts more", "real2")),
        node("Div", "whole2 by", "y2"), node("Less", "whole2 zero", "y3"),
        node("Min", "whole2 zero", "y4"), node("Concat", "y1 y0", "pads", axis=0),
        node("Pad", "x pads", "y5")]
    init = weights(half=np.float32(0.5), two=np.float32(2), zero=np.array([0]),
                   most=np.float32(24), part=np.float32(0.3), more=np.float32(3.5),
                   by=np.array([2]))
    outputs = [value(f"y{i}", B if i == 3 else I, 1) for i in range(5)]
    return (nodes, [value("x", F, "n")], [*outputs, value("y5", F, None)], init,
            [dict(x=normal(n)) for n in (3, 8, 30)], 18)


def limits():
    """Ends behind a least length, a length that is squeezed of two axes, a symbol of the name that
    a count would get, and a branch without elements beside one that fits no length; in three
    sizes."""
    graph = lambda nodes, name: helper.make_graph(nodes, name, [], [value(name, F, None)])
    none = helper.make_node("Constant", [], ["none"], value=numpy_helper.from_array(
        np.zeros(0, "f4"), "none"))
    nodes = [
        node("Shape", "x", "n"), node("Min", "n four", "least"),
        node("Slice", "x zero least", "first"), node("Slice", "first zero six", "cut"),
        node("TopK", "x least", "top at"), node("Slice", "top zero six", "best"),
        node("Reshape", "n one_one", "n2"), node("Squeeze", "n2 zero", "n1"),
        node("Concat", "n1 six", "lengths", axis=0),
        node("NonZero", "x", "places"), node("Squeeze", "places zero", "there"),
        node("Shape", "there", "count"), node("Sub", "n count", "left"),
        node("ReduceSum", "x", "sum", keepdims=0), node("Less", "sum many", "always"),
        helper.make_node("If", ["always"], ["branch"], then_branch=graph([none], "none"),
                         else_branch=graph([node("Add", "x nine", "more")], "more"))]
    init = weights(zero=np.array([0]), four=np.array([4]), six=np.array([6]),
                   one_one=np.array([1, 1]), many=np.float32(1e9), nine=np.ones(9, "f4"))
    feeds = [dict(x=normal(n) * (np.arange(n) % 3 != 1).astype("f4")) for n in (3, 5, 12)]
    outputs = [value(name, F, None) for name in ("cut", "best", "branch")]
    outputs += [value("lengths", I, 2), value("left", I, 1)]
    return nodes, [value("x", F, "count 0")], outputs, init, feeds, 18


def any_size():
    """Operators whose axes have any length: recurrent layers over rows that end, transforms, places
    of maxima, attention over rows that end; sums of axes of two names that are equal, and branches
    of other lengths; in three sizes."""
    own = np.random.default_rng(54)
    draw = lambda *shape: own.normal(0, 0.5, shape).astype("f4")
    graph = lambda nodes, name: helper.make_graph(nodes, name, [], [value(name, F, None)])
    nodes = [
        helper.make_node("LSTM", ["steps", "lw", "lr", "", "ends"], ["lstm", "lh", "lc"],
                         hidden_size=4),
        helper.make_node("GRU", ["steps", "gw", "gr", "", "ends"], ["gru", "gh"], hidden_size=4,
                         direction="reverse"),
        helper.make_node("RNN", ["steps", "rw", "rr", "", "ends"], ["rnn"], hidden_size=4),
        node("DFT", "wave", "dft", axis=1), node("DFT", "wave", "half", axis=1, onesided=1),
        node("DFT", "wave six", "cut", axis=1), node("DFT", "dft", "back", axis=1, inverse=1),
        node("DFT", "wave six", "cut_half", axis=1, onesided=1),
        helper.make_node("STFT", ["wave", "two", "window"], ["stft"]),
        node("MaxPool", "image", "top at", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
        node("MaxPool", "image", "high places", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1),
        node("MaxPool", "odd", "every_second", kernel_shape=[1, 1], strides=[2, 2],
             auto_pad="SAME_UPPER"),
        node("MaxPool", "pairs", "even evens", kernel_shape=[2, 2], strides=[2, 2]),
        node("MaxUnpool", "even evens", "unpooled", kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", "image kernel", "same", auto_pad="SAME_UPPER", strides=[2, 2]),
        ms("Attention", "text qkv qkvb ends", "seen", num_heads=2),
        ms("RotaryEmbedding", "text first cosines sines", "turned"),
        node("Add", "square other", "sum"), node("Where", "bits square other", "chosen"),
        node("Resize", "image none scales", "scaled", mode="nearest"),
        helper.make_node("If", ["flag"], ["branch"], then_branch=graph(
            [node("Concat", "line line", "twice", axis=0)], "twice"),
                         else_branch=graph([node("Neg", "line", "once")], "once")),
        helper.make_node("If", ["flag"], ["other_branch"], then_branch=graph(
            [node("Abs", "line", "one")], "one"),
                         else_branch=graph([node("Concat", "line line", "two_of", axis=0)],
                                           "two_of"))]
    init = weights(lw=draw(1, 16, 3), lr=draw(1, 16, 4), gw=draw(1, 12, 3), gr=draw(1, 12, 4),
                   rw=draw(1, 4, 3), rr=draw(1, 4, 4), six=np.array(6), two=np.array(2),
                   window=draw(4), kernel=draw(2, 2, 3, 3), qkv=draw(8, 24), qkvb=draw(24),
                   cosines=draw(40, 4), sines=draw(40, 4), none=np.zeros(0, "f4"),
                   scales=np.array([1, 1, 1.3, 0.7], "f4"))
    feeds = []
    for t, b, s, h, w, n, flag in ((5, 2, 9, 7, 8, 3, True), (1, 3, 4, 5, 5, 2, False),
                                   (9, 1, 16, 12, 6, 6, True)):
        feeds.append(dict(
            steps=draw(t, b, 3), ends=own.integers(1, t + 1, b).astype("i4"), wave=draw(b, s, 1),
            image=draw(1, 2, h, w), pairs=draw(1, 2, 2 * n, 2 * b), text=draw(b, t, 8),
            first=np.array([2]), square=draw(n, n, 2),
            other=draw(n, n, 2), bits=draw(n, n, 2) > 0, line=draw(n), flag=np.array(flag),
            odd=draw(1, 1, 2 * n - 1, 2 * b + 1)))
    inputs = [value("steps", F, "t", "b", 3), value("ends", TensorProto.INT32, "rows"),
              value("wave", F, "b", "s", 1), value("image", F, 1, 2, "h", "w"),
              value("pairs", F, 1, 2, "?", "?"),
              value("text", F, "b", "t", 8), value("first", I, 1), value("square", F, "n", "n", 2),
              value("other", F, "n", "m", 2), value("bits", B, "n", "m", 2), value("line", F, "n"),
              value("flag", B), value("odd", F, 1, 1, "o", "p")]
    names = {"lstm": 4, "lh": 3, "lc": 3, "gru": 4, "gh": 3, "rnn": 4, "dft": 3, "half": 3,
             "cut": 3, "back": 3, "cut_half": 3, "stft": 4, "top": 4, "high": 4, "unpooled": 4,
             "same": 4, "every_second": 4, "seen": 3, "turned": 3, "sum": 3, "chosen": 3,
             "scaled": 4, "branch": 1, "other_branch": 1}
    outputs = [value(name, F, *[None] * ndim) for name, ndim in names.items()]
    outputs += [value(name, I, *[None] * 4) for name in ("at", "places")]
    return nodes, inputs, outputs, init, feeds, 18


def packed():
    """Weights of few bits that are dequantised: in blocks along the rows of a product, along its
    columns, for each column, for all; behind a transpose, in a Gemm, as a table, and where mica has
    no product of such weights."""
    own = np.random.default_rng(55)
    draw = lambda *shape: own.normal(0, 0.5, shape).astype("f4")
    scale = lambda *shape: own.uniform(0.01, 0.05, shape).astype("f4")
    types = {"u4": (TensorProto.UINT4, 0, 16), "i4": (TensorProto.INT4, -8, 8),
             "i8": (TensorProto.INT8, -128, 128), "u8": (TensorProto.UINT8, 0, 256)}

    def codes(name, kind, *shape):
        type_, low, high = types[kind]
        return helper.make_tensor(name, type_, shape, own.integers(low, high, shape).ravel())

    forms = [  # name, type, shape of the weights, of the scales, axis, block, zero points
        ("a", "u4", (96, 20), (3, 20), 0, 32, True), ("b", "i4", (100, 20), (2, 20), 0, 64, False),
        ("c", "i8", (256, 20), (1, 20), 0, 256, True), ("d", "i8", (64, 20), (20,), 1, 0, True),
        ("e", "u8", (64, 20), (), None, 0, True), ("f", "i4", (64, 20), (64, 5), 1, 4, False),
        ("g", "u4", (20, 96), (20, 3), 1, 32, True), ("h", "i8", (20, 64), (20,), 0, 0, False),
        ("k", "i4", (48, 20), (3, 20), 0, 16, True), ("t", "u4", (40, 64), (40, 2), 1, 32, True),
        ("v", "i8", (40, 64), (40,), 0, 0, False),
        ("l", "i4", (64, 20), (1, 20), 0, 1 << 62, True), # longer than the axis
        ("w", "u8", (40, 64), (40, 1), 1, 1 << 62, True)]
    nodes, init, inputs, feeds, outputs = [], [], [], {}, []
    for name, kind, shape, scales, axis, block, zeros in forms:
        parts = [f"{name}_q", f"{name}_s"] + [f"{name}_z"] * zeros
        init += [codes(parts[0], kind, *shape), *weights(**{parts[1]: scale(*scales)})]
        if zeros:
            init.append(codes(parts[2], kind, *scales))
        attributes = dict(axis=axis) if axis is not None else {}
        if block:
            attributes["block_size"] = block
        nodes.append(helper.make_node("DequantizeLinear", parts, [f"{name}_w"], **attributes))
        outputs.append(value(f"{name}_y", F, None, None))
        if name in "tvw":
            nodes.append(node("Gather", f"{name}_w rows", f"{name}_y"))
            continue
        width = shape[1] if name in "gh" else shape[0]
        if f"x{width}" not in feeds:
            feeds[f"x{width}"] = draw(3, width)
            inputs.append(value(f"x{width}", F, "batch", width))
        if name == "g":
            nodes += [node("Transpose", "g_w", "g_t", perm=[1, 0]),
                      node("MatMul", f"x{width} g_t", "g_y")]
        elif name == "h":
            nodes.append(node("Gemm", f"x{width} h_w bias", "h_y", transB=1))
        else:
            nodes.append(node("MatMul", f"x{width} {name}_w", f"{name}_y"))
    init += weights(bias=draw(20))
    inputs.append(value("rows", I, "l"))
    feeds["rows"] = np.array([3, 39, -1, 0, 3])
    return nodes, inputs, outputs, init, feeds, 21


def moved():
    """What only moves elements, between DequantizeLinear and QuantizeLinear of one scale, which
    gives the integers back, and of others, which do not: 11 roundings are left."""
    own = np.random.default_rng(57)
    nodes, outputs = [], []
    moves = [("Reshape", "v4", {}), ("Transpose", "", dict(perm=[0, 2, 3, 1])),
             ("Slice", "v1 v3 v1", {}), ("Flatten", "", dict(axis=2)), ("Expand", "wide", {}),
             ("Gather", "v1", dict(axis=1)), ("Unsqueeze", "v1", {}), ("Tile", "twice", {}),
             ("MaxPool", "", dict(kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])),
             ("DepthToSpace", "", dict(blocksize=2)), ("SpaceToDepth", "", dict(blocksize=2)),
             ("Identity", "", {}), ("Concat", "", dict(axis=1)), ("Split", "", dict(axis=2)),
             ("Pad", "pads", {}), ("Resize", "none sizes", dict(mode="nearest"))]
    init = weights(v1=np.array([1]), v3=np.array([3]), v4=np.array([2, 2, -1]),
                   wide=np.array([2, 1, 1, 1, 1]), twice=np.array([1, 1, 2, 1]),
                   pads=np.array([0, 1, 0, 2, 0, 0, 1, 1]), none=np.zeros(0, "f4"),
                   sizes=np.array([1, 1, 2, 1.5], "f4"),
                   s=np.float32(0.0173), other=np.float32(0.031), us=np.uint8(117),
                   ss=np.int8(-9))
    for zero, kind in (("us", TensorProto.UINT8), ("ss", TensorProto.INT8)):
        nodes += [node("QuantizeLinear", f"x s {zero}", f"{zero}_q"),
                  node("DequantizeLinear", f"{zero}_q s {zero}", f"{zero}_x"),
                  node("QuantizeLinear", f"{zero}_x other {zero}", f"{zero}_r"),
                  node("DequantizeLinear", f"{zero}_r other {zero}", f"{zero}_z")]
        for i, (op, operands, attributes) in enumerate(moves):
            name = f"{zero}_{op}"
            if op == "Concat":
                operands = f"{zero}_x"
            results = [f"{name}_y", f"{name}_y2"] if op == "Split" else [f"{name}_y"]
            nodes += [node(op, f"{zero}_x {operands}".strip(), " ".join(results), **attributes),
                      node("QuantizeLinear", f"{results[0]} s {zero}", f"{name}_q")]
            outputs.append(value(f"{name}_q", kind, *[None] * (5 if op in "Expand Unsqueeze" else
                                                               3 if op == "Reshape" else
                                                               2 if op == "Flatten" else 4)))
        # another scale in a Concat, and behind a move
        nodes += [node("Concat", f"{zero}_x {zero}_z", f"{zero}_c", axis=1),
                  node("QuantizeLinear", f"{zero}_c s {zero}", f"{zero}_mixed"),
                  ms("QLinearConcat", f"s {zero} {zero}_q s {zero} {zero}_r other {zero}",
                     f"{zero}_joined", axis=2),
                  node("Pad", f"{zero}_x pads", f"{zero}_back", mode="reflect"),
                  node("QuantizeLinear", f"{zero}_back s {zero}", f"{zero}_reflected"),
                  node("QuantizeLinear", f"{zero}_Transpose_y other {zero}", f"{zero}_rescaled")]
        outputs += [value(f"{zero}_{name}", kind, *[None] * 4)
                    for name in ("mixed", "rescaled", "joined", "reflected")]
        # windows that hold padding alone, whose largest element is no multiple of a scale
        nodes += [node("MaxPool", f"{zero}_x", f"{zero}_far", kernel_shape=[2, 2],
                       dilations=[7, 9], pads=[1, 1, 1, 1]),
                  node("Sigmoid", f"{zero}_far", f"{zero}_near")]
        outputs.append(value(f"{zero}_near", F, *[None] * 4))
    nodes += [node("Add", "us_Transpose_y ss_Transpose_y", "sum"),
              node("QuantizeLinear", "sum other us", "sum_q")]
    outputs.append(value("sum_q", TensorProto.UINT8, *[None] * 4))
    inputs = [value("x", F, "n", 4, 6, 8)]
    return nodes, inputs, outputs, init, dict(x=own.normal(0, 1.5, (2, 4, 6, 8)).astype("f4")), 17


def more_counts():
    """What goes on with lengths that depend on values: convolutions, pools and means of what is
    counted, shares of it, boxes whose number a run says; and a pad that leaves elements out in
    some sizes; in three sizes."""
    own = np.random.default_rng(56)
    draw = lambda *shape: own.normal(0, 0.5, shape).astype("f4")
    nodes = [
        node("NonMaxSuppression", "boxes scores many half", "chosen"),
        node("Greater", "likely low", "mask"), node("NonZero", "mask", "at"),
        node("Squeeze", "at i0", "rows"), node("Gather", "images rows", "some"),
        node("Conv", "some kernel", "c", pads=[1, 1, 1, 1]),
        node("BatchNormalization", "c s h m v", "normed"), node("HardSwish", "normed", "bent"),
        node("MaxPool", "bent", "pooled", kernel_shape=[2, 2], strides=[2, 2]),
        node("ConvTranspose", "pooled turned", "wide", strides=[2, 2]),
        node("GlobalAveragePool", "wide", "means"), node("Gather", "likely rows", "values"),
        node("Softmax", "values", "shares", axis=0), node("LogSoftmax", "values", "logs", axis=0),
        node("ReduceMean", "values", "mean", axes=[0], keepdims=0),
        node("ReduceMean", "bent", "mean3", axes=[2, 3], keepdims=0),
        node("ReduceLogSumExp", "values", "lse", axes=[0]),
        node("Greater", "values half", "large"),
        node("Compress", "values large", "picked", axis=0),
        node("Shape", "likely", "n"), node("Shape", "other", "l"), node("Sub", "l n", "more"),
        node("Concat", "i0 more", "pads", axis=0), node("Pad", "likely pads", "fitted"),
        node("Add", "fitted other", "sum"), node("Squeeze", "boxes i0", "regions"),
        node("Gather", "regions rows", "rois"), node("ConstantOfShape", "n", "zeros"),
        node("Cast", "zeros", "first", to=I), node("Gather", "first rows", "which"),
        node("RoiAlign", "images rois which", "own", output_height=2, output_width=3,
             spatial_scale=2.5, coordinate_transformation_mode="output_half_pixel"),
        node("RoiAlign", "map rois which", "one_map", output_height=3, output_width=2,
             spatial_scale=0.7)]
    init = weights(half=np.float32(0.5), low=np.float32(0.25), i0=np.array([0]),
                   kernel=draw(4, 3, 3, 3), s=draw(4), h=draw(4), m=draw(4), v=np.abs(draw(4)) + 1,
                   turned=draw(4, 2, 2, 2))
    feeds = []
    for n, m, many in ((9, 12, 2), (12, 5, 0), (6, 6, 40)):
        corner = own.uniform(0, 8, (1, n, 2))
        boxes = np.concatenate([corner, corner + own.uniform(1, 6, (1, n, 2))], 2)
        feeds.append(dict(boxes=boxes.astype("f4"),
                          scores=own.uniform(0, 1, (1, 2, n)).astype("f4"), many=np.array([many]), likely=own.uniform(0, 1, n).astype("f4"),
                          images=draw(n, 3, 6, 6), other=draw(m), map=draw(1, 2, m, n)))
    inputs = [value("boxes", F, 1, "n", 4), value("scores", F, 1, 2, "n"), value("many", I, 1),
              value("likely", F, "n"), value("images", F, "n", 3, 6, 6), value("other", F, "m"),
              value("map", F, 1, 2, "m", "n")]
    names = {"means": 4, "own": 4, "one_map": 4, "wide": 4, "shares": 1, "logs": 1, "mean": 0,
             "mean3": 2, "lse": 1, "picked": 1, "sum": 1}
    outputs = [value("chosen", I, None, 3)]
    outputs += [value(name, F, *[None] * ndim) for name, ndim in names.items()]
    return nodes, inputs, outputs, init, feeds, 17


CASES = (mlp, cnn, shapes, branch, loops, numbers, outside, vision, quantised, recurrent, halves,
         corners, old, older, old_resize, lengths, integers, microsoft, counted, ends, varied,
         published, functions, small_types, sampling, signals, firsts, backs,
         trees,
         linear_models, sequences, peepholes, ratios, regions, signs, limits, any_size, packed,
         moved, more_counts, channels, crossed)


def remake(names):
    """Makes the cases of these names; each from numbers of its own."""
    global random
    for case in CASES:
        if case.__name__ in names:
            random = np.random.default_rng(list(case.__name__.encode()))
            make(case.__name__, case())
    for name in KEPT:
        if name in names:
            random = np.random.default_rng(list(name.encode()))
            run_case(name, KEPT[name]())


if __name__ == "__main__":
    for folder in (OUT, SEEDS):
        folder.mkdir(parents=True, exist_ok=True)
    remake(sys.argv[1:] or [case.__name__ for case in CASES] + [*KEPT])
    update_manifest()
