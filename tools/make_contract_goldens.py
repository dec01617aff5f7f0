#!/usr/bin/env python3
"""Makes tests/fixtures/ops/contract.*: products over any axes, and other ops of op/contract.c,
op/einsum.c, op/index_nd.c and op/search.c, as NumPy and onnx compute them.

    python3 tools/make_contract_goldens.py  (needs the Python packages numpy, onnx and safetensors;
                                             made with numpy 2.4.6 and onnx 1.23.2)

dot_general has the patterns of StableHLO's table, each with lengths that tell the axes apart, with
a length of 0, with one of 1, and of i8. NumPy computes in f64. Records of floats have their
gradients behind the result, with NumPy as well: of sum(y * dy).
"""
import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from nn_goldens import Records

random = np.random.default_rng(36)
records = Records("contract")

# a, b, batch letters, contracted letters
PATTERNS = [
    ("mk", "kn", "", "k"),
    ("km", "nk", "", "k"),
    ("bmk", "bkn", "b", "k"),
    ("mbck", "ckbn", "bc", "k"),
    ("mpq", "qpn", "", "pq"),
    ("pq", "pq", "", "pq"),
    ("m", "n", "", ""),
    ("b", "b", "b", ""),
    ("blhd", "bshd", "bh", "d"),
    ("amk", "kno", "", "k"),
]
LENGTHS = dict(a=2, b=3, c=2, d=7, h=2, k=6, l=4, m=5, n=3, o=2, p=4, q=3, s=5)


def dot_general(a, b, batch, contract, lengths, integer=False):
    shapes = [[lengths[c] for c in letters] for letters in (a, b)]
    out = batch + "".join(c for c in a if c not in batch + contract)
    out += "".join(c for c in b if c not in batch + contract)
    args = {"a_batch": [a.index(c) for c in batch], "b_batch": [b.index(c) for c in batch],
            "a_contract": [a.index(c) for c in contract],
            "b_contract": [b.index(c) for c in contract]}
    equation = f"{a},{b}->{out}"
    if integer:
        x, y = (random.integers(-128, 128, shape).astype(np.int8) for shape in shapes)
        z = np.einsum(equation, x.astype(np.int32), y.astype(np.int32)).astype(np.int32)
        records.add("dot_general", args, {"a": x, "b": y}, [z], equation)
        return
    x, y = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
    z = np.einsum(equation, x.astype(np.float64), y.astype(np.float64))
    dz = random.standard_normal(z.shape).astype(np.float32)
    da = np.einsum(f"{out},{b}->{a}", dz.astype(np.float64), y.astype(np.float64))
    db = np.einsum(f"{out},{a}->{b}", dz.astype(np.float64), x.astype(np.float64))
    records.add("dot_general", args, {"a": x, "b": y, "dy": dz},
                [v.astype(np.float32) for v in (z, da, db)], equation)


def einsum(equation, *shapes):
    xs = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    y = np.einsum(equation, *[x.astype(np.float64) for x in xs])
    records.add("einsum", {"eq": equation}, {str(i): x for i, x in enumerate(xs)},
                [np.asarray(y).astype(np.float32)])


def onnx_op(op, inputs, **attributes):
    """One node, as onnx's reference evaluator computes it."""
    kinds = {"float32": TensorProto.FLOAT, "int64": TensorProto.INT64}
    values = [helper.make_tensor_value_info(name, kinds[str(x.dtype)], x.shape)
              for name, x in inputs.items()]
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node(op, list(inputs), ["y"], **attributes)
    model = helper.make_model(helper.make_graph([node], op, values, [out]),
                              opset_imports=[helper.make_opsetid("", 18)])
    return ReferenceEvaluator(model).run(None, inputs)[0]


def gather_nd(shape, indices, batch=0):
    x, at = random.standard_normal(shape).astype(np.float32), np.array(indices, np.int64)
    y = onnx_op("GatherND", {"data": x, "indices": at}, batch_dims=batch)
    records.add("gather_nd", {"batch": batch}, {"x": x, "indices": at}, [y])


def scatter_nd(shape, indices, mode):
    x, at = random.standard_normal(shape).astype(np.float32), np.array(indices, np.int64)
    updates = random.standard_normal(at.shape[:-1] + tuple(shape[at.shape[-1]:]))
    updates = updates.astype(np.float32)
    y = onnx_op("ScatterND", {"data": x, "indices": at, "updates": updates}, reduction=mode)
    records.add("scatter_nd", {"mode": mode}, {"x": x, "indices": at, "updates": updates}, [y])


def search(sorted_values, values):
    for side in ("left", "right"):
        y = np.searchsorted(sorted_values, values, side=side).astype(np.uint32)
        records.add("searchsorted", {"right": side == "right"},
                    {"a": sorted_values, "v": values}, [y])


def main():
    for a, b, batch, contract in PATTERNS:
        special = (contract or batch or a)[0]
        dot_general(a, b, batch, contract, LENGTHS)
        dot_general(a, b, batch, contract, LENGTHS | {special: 0})
        dot_general(a, b, batch, contract, LENGTHS | {special: 1})
        dot_general(a, b, batch, contract, LENGTHS, integer=True)
    dot_general("mk", "kn", "", "k", dict(m=2, k=3000, n=3), integer=True)
    for equation, *shapes in [
            ("ij,jk", (2, 3), (3, 4)), ("ba", (2, 3)), ("...ij,...jk", (2, 3, 4), (4, 5)),
            ("i...->...", (3, 2, 2)), ("iij->j", (3, 3, 2)), ("iijj->ij", (2, 2, 3, 3)),
            ("ii", (4, 4)), ("ij,jk->ik", (2, 1), (3, 4)), ("...,...", (2, 1, 3), (4, 1)),
            ("ij,jk,kl,lm->im", (2, 3), (3, 4), (4, 2), (2, 5)), ("i,i,i", (4,), (4,), (4,)),
            ("ab,bc,cd->", (2, 3), (3, 2), (2, 2)), ("aBc,B->ca", (2, 3, 4), (3,)),
            (" i j , j -> i ", (2, 3), (3,)), ("b...d,bd->b...", (2, 3, 2, 4), (2, 4)),
            ("ij,kl->ijkl", (2, 1), (3, 2)), ("ijk,ilm,njm,nlk,abc->", (2, 3, 4), (2, 2, 3),
            (2, 3, 3), (2, 2, 4), (2, 2, 2)), ("i,j->", (0,), (3,)), (",i->i", (), (3,))]:
        einsum(equation, *shapes)
    for shapes in (((2, 3), (3, 2)), ((4,), (2, 3)), ((2, 3, 2), (2,)), ((), (3,)),
                   ((0, 2), (2, 3)), ((1, 2, 1, 2, 1, 3, 1, 2), (1, 1, 1, 3, 1, 1, 1, 2))):
        a, b = (random.standard_normal(shape).astype(np.float32) for shape in shapes)
        records.add("kron", {}, {"a": a, "b": b}, [np.kron(a, b)])
    gather_nd((2, 3, 4), [[0, 2], [1, -3], [1, 1]])
    gather_nd((2, 3, 4), [[[0], [1]], [[1], [1]]])
    gather_nd((2, 3, 4, 2), [[[0], [2]], [[-1], [1]]], batch=1)
    gather_nd((2, 2, 3), [[[[0], [2]], [[1], [1]]], [[[0], [0]], [[2], [-1]]]], batch=2)
    gather_nd((3, 2), [[2, 1], [0, 0]])
    gather_nd((3, 2, 0), [[2, 1], [0, 0]])
    for mode in ("none", "add", "mul", "max", "min"):
        scatter_nd((4, 3), [[1], [3], [1]] if mode != "none" else [[1], [3], [0]], mode)
    scatter_nd((3, 4, 2), [[[0, 1], [2, -1]]], "add")
    search(np.array([-3, -1, -1, 0, 2, 2, 2, 7], np.float32),
           np.array([[-4, -3, -1, 0], [1, 2, 7, 9]], np.float32))
    search(np.array([0, 1, np.inf, np.nan, np.nan], np.float32),
           np.array([np.nan, np.inf, -np.inf, 1], np.float32))
    search(np.array([], np.float32), np.array([1, 2], np.float32))
    search(np.arange(100, dtype=np.int32) // 3, np.array([5, 32, 33, -1, 99], np.int32))
    for axes, keepdims in (([0], False), ([1, 2], True), ([0, 2], False), ([], False)):
        x = random.standard_normal((3, 4, 5)).astype(np.float32)
        y = np.median(x, axis=tuple(axes) or None, keepdims=keepdims)
        records.add("median", {"axis": axes, "keepdims": keepdims}, {"a": x},
                    [np.asarray(y, np.float32)])
    records.add("median", {"axis": [0]}, {"a": np.array([[1, 2], [np.nan, 4]], np.float32)},
                [np.array([np.nan, 3], np.float32)])
    records.save()


if __name__ == "__main__":
    main()
