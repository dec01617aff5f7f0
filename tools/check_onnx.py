#!/usr/bin/env python3
"""Runs the cases of ONNX's own backend tests through mica convert and mica program run.

  tools/check_onnx.py MICA [--only REGEX] [--each N] [--jobs N] [--list] [--device NAME]
                       [--mode MODE]

The cases are those that Python's onnx carries: those of nodes, which its code makes, and those of
files (onnx/backend/test/data), with their numbers. Lengths that a case leaves open stay open where
that converts. Inputs that mica must know beforehand, such as axes and shapes, become constants with
the case's values. With --each N, of the cases that have the
same operators only the first N run. Counted are cases that pass, that fail,
and that mica says it does not support, by what it lacks. The last line is "N passed, N failed, N
not supported". Returns 1 if one failed, 77 without onnx (tools/setup-onnx).
"""
import argparse
import collections
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

try:
    import numpy
    import onnx
    from onnx import numpy_helper
    from onnx.backend.test.case.node import collect_testcases
except ImportError as error:
    print(f"skipped: there is no onnx: {error}")
    sys.exit(77)

# What mica says where it does not have something: not a failure, but counted by its words.
LACKING = [
    (r"missing: .*?operator (\S+)", "operator {}"),
    (r"mica has no dtype for ONNX's (\S+)", "dtype {}"),
    (r"mica does not have (.*?)(?: \(|;)", "{}"),
    (r"(it is no tensor)", "an input that is no tensor"),
    (r"(its number of axes is not told)", "{}"),
    (r"(depends on what a run is given)", "lengths that depend on what a run is given"),
    (r"opset (\d+), where", "opset {}"),
    (r"its operand has (\d+) axes; mica has", "windows of {} axes"),
]
RTOL, ATOL = 1e-3, 1e-7  # those of onnx's runner
# Four units in the last place: mica rounds some of these once where the reference does each time.
ULPS = {"float16": 4 * 2.0**-10, "bfloat16": 4 * 2.0**-7}


# Fourier transforms: what is rounded is as large as the largest number, also where the result is 0.
TRANSFORMS = re.compile(r"test_(dft|stft)")


def lacking(text):
    text = " ".join(text.split())
    for pattern, words in LACKING:
        found = re.search(pattern, text)
        if found:
            return words.format(found.group(1))
    return None


def array_of(x):
    return numpy_helper.to_array(x) if isinstance(x, onnx.TensorProto) else numpy.asarray(x)


def read(path):
    data = path.read_bytes()
    tensor = onnx.TensorProto()
    tensor.ParseFromString(data)
    return numpy_helper.to_array(tensor)


def is_small_int(dtype):
    return re.fullmatch(r"u?int[24]", dtype.name) is not None


def storable(x):
    """An array in a dtype that npz files have: bf16 as two bytes, floats of a byte or less as their
    codes, integers of fewer bits as bytes."""
    x = array_of(x)
    if x.dtype.name == "bfloat16":
        return x.view("V2")
    if x.dtype.name.startswith(("float8", "float4")):
        return x.view("u1")
    return x.astype("u1" if x.dtype.name[0] == "u" else "i1") if is_small_int(x.dtype) else x


def beyond_f32(x):
    """Whether it has doubles that f32, which mica computes them in, does not hold."""
    if x.dtype.name != "float64":
        return False
    return bool((abs(x[numpy.isfinite(x)]) > numpy.finfo("f4").max).any())


def same(want, got, rtol, atol):
    if want.dtype.name.startswith(("bfloat16", "float8", "float4")):
        got = got.view(want.dtype)
    if is_small_int(want.dtype):
        want = storable(want)
    rtol = max(rtol, ULPS.get(want.dtype.name, 0))
    if want.dtype != got.dtype or want.shape != got.shape:
        return f"{got.dtype}{got.shape} where {want.dtype}{want.shape} is expected"
    if want.dtype.kind in "fcV":
        want, got = (x.astype("c16" if x.dtype.kind == "c" else "f8") for x in (want, got))
        if not numpy.allclose(got, want, rtol=rtol, atol=atol, equal_nan=True):
            return f"differs by {numpy.nanmax(abs(got - want)):.3g}"
        return None
    return None if (want == got).all() else "differs"


def folder_case(folder):
    """A case of files: its model and its sets of inputs and outputs."""
    model = onnx.load(folder / "model.onnx")
    sets = []
    for data in sorted(folder.glob("test_data_set_*")):
        ins = [read(f) for f in sorted(data.glob("input_*.pb"))]
        outs = [read(f) for f in sorted(data.glob("output_*.pb"))]
        sets.append((ins, outs))
    return folder.name, model, sets, RTOL, ATOL


def collect():
    """All cases: those that onnx's code makes, and those of its files."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in collect_testcases(None):
            yield case.name, case.model, case.data_sets, case.rtol, case.atol
    base = pathlib.Path(onnx.__file__).parent / "backend/test/data"
    for kind in ("simple", "pytorch-converted", "pytorch-operator"):
        for folder in sorted((base / kind).glob("test_*")):
            yield folder_case(folder)


def first_of_each(cases, n):
    """Of the cases that have the same operators, the first n."""
    seen = collections.Counter()
    for case in cases:
        kind = frozenset(node.op_type for node in case[1].graph.node)
        seen[kind] += 1
        if seen[kind] <= n:
            yield case


def dim_options(ports, arrays):
    for port, x in zip(ports, arrays):
        for k, dim in enumerate(port.type.tensor_type.shape.dim):
            if not dim.HasField("dim_value") and isinstance(x, numpy.ndarray):
                yield "--dim"
                yield f"{port.name}.{k}={x.shape[k]}"


def convert(mica, work, inputs, arrays):
    """With lengths that vary; without where a node needs a number, or two lengths must be one."""
    command = [mica, "convert", f"{work}/x.onnx", f"{work}/x.mica"]
    dims = list(dim_options(inputs, arrays))
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0 and dims:
        done = subprocess.run(command + dims, capture_output=True, text=True, timeout=120)
    return done


def bake(model, inputs, sets, error):
    """Makes a constant of an input that mica must know beforehand, such as axes, or that such a
    value is computed of. False: none is."""
    found = re.search(r"'([^']*)', depends on what a run is given", error)
    makers = {name: node for node in model.graph.node for name in node.output}
    names, new = set(), {found.group(1)} if found else set()
    while new:
        names |= new
        new = {i for n in new if n in makers for i in makers[n].input} - names
    at = [i for i, port in enumerate(inputs) if port.name in names]
    if not at or len(sets) != 1:
        return False
    x = array_of(sets[0][0].pop(at[0]))
    model.graph.initializer.append(numpy_helper.from_array(x, inputs.pop(at[0]).name))
    return True


def run_case(case, mica, options):
    """Returns ("passed" | "failed" | "lacking", why)."""
    name, model, sets, rtol, atol = case
    sets = [(list(ins), outs) for ins, outs in sets]
    with tempfile.TemporaryDirectory() as work:
        program = f"{work}/x.mica"
        onnx.save(model, f"{work}/x.onnx")
        given = {t.name for t in model.graph.initializer}
        inputs = [i for i in model.graph.input if i.name not in given]
        done = convert(mica, work, inputs, sets[0][0])
        while done.returncode != 0 and bake(model, inputs, sets, " ".join(done.stderr.split())):
            onnx.save(model, f"{work}/x.onnx")
            done = convert(mica, work, inputs, sets[0][0])
        if done.returncode != 0:
            why = lacking(done.stderr)
            return ("lacking", why) if why and done.returncode == 1 else ("failed", done.stderr)
        for ins, outs in sets:
            arrays = {p.name: storable(x) for p, x in zip(inputs, ins)}
            numpy.savez(f"{work}/in.npz", **arrays)
            command = [mica, "program", "run", program, "-o", f"{work}/out.npz", *options]
            if arrays:
                command += ["--input", f"{work}/in.npz"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            if done.returncode != 0:
                return "failed", done.stderr
            out = numpy.load(f"{work}/out.npz")
            for port, want in zip(model.graph.output, outs):
                if TRANSFORMS.match(name):
                    atol = 2.0**-20 * numpy.abs(array_of(want)).max()
                why = same(array_of(want), out[port.name], rtol, atol)
                if why and beyond_f32(array_of(want)):
                    return "lacking", "f64 beyond the range of f32"
                if why:
                    return "failed", f"{port.name}: {why}"
    return "passed", ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("mica")
    parser.add_argument("--only", default="")
    parser.add_argument("--each", type=int, metavar="N", help="cases of the same operators")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true", help="print a line for each case")
    parser.add_argument("--device")
    parser.add_argument("--mode")
    args = parser.parse_args()
    options = ["--device", args.device] if args.device else []
    options += ["--mode", args.mode] if args.mode else []
    cases = [c for c in collect() if re.search(args.only, c[0])]
    if args.each:
        cases = list(first_of_each(cases, args.each))

    def run(case):
        try:
            return run_case(case, args.mica, options)
        except Exception as error:
            return "failed", f"{type(error).__name__}: {error}"

    counts, lacks = collections.Counter(), collections.Counter()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for case, (result, why) in zip(cases, pool.map(run, cases)):
            counts[result] += 1
            if result == "lacking":
                lacks[why] += 1
            if result == "failed" or args.list:
                print(f"{result} {case[0]}: {' '.join(str(why).split())}", flush=True)
    for why, n in lacks.most_common():
        print(f"not supported: {n:4} {why}")
    print(f"{counts['passed']} passed, {counts['failed']} failed, "
          f"{counts['lacking']} not supported")
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
