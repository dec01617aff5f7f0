#!/usr/bin/env python3
"""Makes tests/fixtures/npz: arrays in files of numpy and of MLX.

    python3 tools/make_npz_goldens.py [--check FILE]    (needs the Python packages numpy and mlx;
                                                         made with numpy 2.4 and mlx 0.32)

stored.npz and compressed.npz hold the same arrays, of each dtype and of several shapes;
values.safetensors, which MLX writes, what is in them. Every array is also a file of its own,
<name>.npy, whose bytes mica_save_npy must write. mlx.npz is MLX's own, with bf16.
foreign.npz holds what mica refuses, and big.npy a big-endian array.
--check FILE reads an npz file that mica wrote of the same arrays (test io.arrays.arrays_npz keeps
it with MICA_NPZ=FILE), and compares.
"""
import hashlib
import pathlib
import sys

import mlx.core as mx
import numpy as np

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures"
OUT = FIXTURES / "npz"


def arrays():
    random = np.random.default_rng(6)
    made = {}
    for kind in ("u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"):
        info = np.iinfo(kind)
        made[kind] = random.integers(info.min, info.max, (2, 3), dtype=kind, endpoint=True)
    made["b1"] = random.integers(0, 2, (5,)).astype(bool)
    made["f2"] = random.normal(0, 1, (3, 2)).astype("f2")
    made["f4"] = random.normal(0, 1, (2, 3, 4)).astype("f4")
    made["c8"] = (random.normal(0, 1, 3) + 1j * random.normal(0, 1, 3)).astype("c8")
    made["scalar"] = np.array(2.5, "f4")
    made["empty"] = np.zeros((0, 3), "f4")
    made["group/name \u00e9"] = np.arange(4, dtype="i4")
    made["zeros"] = np.zeros((20, 30), "f4")
    return made


def update_manifest():
    path = FIXTURES / "MANIFEST.sha256"
    lines = [l for l in path.read_text().splitlines() if not l.split("  ")[1].startswith("npz/")]
    for file in sorted(OUT.iterdir()):
        lines.append(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  npz/{file.name}")
    path.write_text("\n".join(sorted(lines, key=lambda line: line.split("  ")[1])) + "\n")


def main():
    if "--check" in sys.argv:
        got = np.load(sys.argv[sys.argv.index("--check") + 1])
        want = arrays()
        assert set(got) == set(want), set(got) ^ set(want)
        for name, value in want.items():
            assert got[name].dtype == value.dtype and np.array_equal(got[name], value), name
        print(f"{len(want)} arrays as numpy has them")
        return
    OUT.mkdir(exist_ok=True)
    made = arrays()
    for name, value in made.items():
        if "/" not in name:
            np.save(OUT / f"{name}.npy", value)
    np.save(OUT / "fortran.npy", np.asfortranarray(made["f4"]))
    np.save(OUT / "big.npy", made["f4"].astype(">f4"))
    np.savez(OUT / "stored.npz", **made)
    np.savez_compressed(OUT / "compressed.npz", **made)
    np.savez(OUT / "foreign.npz", f8=np.ones(2), ok=np.ones(2, "f4"))
    np.savez(OUT / "objects.npz", x=np.array([None], dtype=object))
    mx.savez(str(OUT / "mlx.npz"), bf16=mx.array([1.0, -2.5]).astype(mx.bfloat16),
             f32=mx.array([[1.0, 2.0], [3.0, 4.0]]))
    mx.save_safetensors(str(OUT / "values.safetensors"),
                        {name: mx.array(value) for name, value in made.items() if name != "c8"})
    update_manifest()


if __name__ == "__main__":
    main()
