"""What tools/make_nn_goldens.py and its like share: records of ops in tests/fixtures/ops."""
import hashlib
import json
import pathlib

import numpy as np
from safetensors.numpy import save_file

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures"
DTYPES = {"float32": "f32", "float16": "f16", "int32": "i32", "int8": "i8", "uint8": "u8",
          "uint32": "u32", "int64": "i64", "bool": "bool", "uint16": "u16"}


class Records:
    """The records of one group: ops/<group>.json and ops/<group>.safetensors."""

    def __init__(self, group):
        self.group, self.cases, self.tensors = group, [], {}

    def add(self, op, args, inputs, outputs, note=None):
        name = f"{op}.{sum(case['op'] == op for case in self.cases)}"
        inputs = {key: np.array(x, order="C") for key, x in inputs.items()}
        outputs = [np.array(y, order="C") for y in outputs]
        for key, x in inputs.items():
            self.tensors[f"{name}/in/{key}"] = x
        for i, y in enumerate(outputs):
            self.tensors[f"{name}/out/{i}"] = y
        case = {"name": name, "op": op, "args": args, "in": list(inputs), "n_out": len(outputs),
                "out_dtypes": [DTYPES[str(y.dtype)] for y in outputs]}
        self.cases.append(case | ({"note": note} if note else {}))

    def save(self):
        names = [f"ops/{self.group}.json", f"ops/{self.group}.safetensors"]
        save_file(self.tensors, FIXTURES / names[1])
        (FIXTURES / names[0]).write_text(json.dumps({"cases": self.cases}) + "\n")
        (FIXTURES / names[1]).chmod(0o644)
        update_manifest(names)


def update_manifest(names):
    path = FIXTURES / "MANIFEST.sha256"
    lines = [line for line in path.read_text().splitlines() if line.split("  ")[1] not in names]
    lines += [f"{hashlib.sha256((FIXTURES / name).read_bytes()).hexdigest()}  {name}"
              for name in names]
    path.write_text("\n".join(sorted(lines, key=lambda line: line.split("  ")[1])) + "\n")
