#!/usr/bin/env python3
"""Makes tests/fixtures/onnx: small networks in ONNX's format, with what onnxruntime computes.

    python3 tools/make_onnx_goldens.py     (needs the Python packages onnx and onnxruntime;
                                            made with onnx 1.23 and onnxruntime 1.32)

<name>.onnx is a network; <name>.npz its inputs, "in.<name>", and outputs, "out.<name>". Weights are
random. outside.onnx has its weights in outside.data. The networks
are also the seeds of fuzz/onnx.
"""
import hashlib
import pathlib
import shutil

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


def make(name, parts):
    nodes, inputs, outputs, init, feeds = parts
    graph = helper.make_graph(nodes, name, inputs, outputs, init)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    results = session.run(None, feeds)
    arrays = {f"in.{k}": v for k, v in feeds.items()}
    arrays |= {f"out.{o.name}": r for o, r in zip(outputs, results)}
    if name == "corners":  # onnxruntime leaves out regions of axes whose length stays
        arrays["out.rh"] = ReferenceEvaluator(model).run(["rh"], feeds)[0]
    np.savez(OUT / f"{name}.npz", **arrays)
    if name == "outside":
        onnx.save(model, OUT / "outside.onnx", save_as_external_data=True, location="outside.data",
                  size_threshold=0)
    else:
        (OUT / f"{name}.onnx").write_bytes(model.SerializeToString())
        (SEEDS / name).write_bytes(model.SerializeToString())


def update_manifest():
    path = FIXTURES / "MANIFEST.sha256"
    rows = dict(line.split("  ")[::-1] for line in path.read_text().splitlines())
    rows = {name: digest for name, digest in rows.items() if not name.startswith("onnx/")}
    for file in sorted(OUT.glob("*")) + [FIXTURES / "README.md"]:
        rows[str(file.relative_to(FIXTURES))] = hashlib.sha256(file.read_bytes()).hexdigest()
    path.write_text("".join(f"{rows[name]}  {name}\n" for name in sorted(rows)))


if __name__ == "__main__":
    for folder in (OUT, SEEDS):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    for case in (mlp, cnn, shapes, branch, loops, numbers, outside, vision, quantised, recurrent,
                 halves, corners):
        make(case.__name__, case())
    update_manifest()
