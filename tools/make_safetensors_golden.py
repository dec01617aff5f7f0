#!/usr/bin/env python3
"""Makes tests/fixtures/safetensors/written.safetensors: what the reference implementation writes
for the tensors of tests/io/safetensors_write.c, which must write the same bytes.

    python3 tools/make_safetensors_golden.py   (needs the Python packages torch and
                                                safetensors; made with 2.15 and 0.8)
"""
import hashlib
import pathlib

import torch
from safetensors.torch import save_file

FIXTURES = pathlib.Path(__file__).resolve().parent.parent / "tests/fixtures"
NAME = "safetensors/written.safetensors"


def update_manifest(name):
    path = FIXTURES / "MANIFEST.sha256"
    lines = [line for line in path.read_text().splitlines() if line.split("  ")[1] != name]
    lines.append(f"{hashlib.sha256((FIXTURES / name).read_bytes()).hexdigest()}  {name}")
    path.write_text("\n".join(sorted(lines, key=lambda line: line.split("  ")[1])) + "\n")


def main():
    (FIXTURES / NAME).parent.mkdir(exist_ok=True)
    tensors = {
        "codes": torch.tensor([0, 1, 2, 3, 4, 5, 255], dtype=torch.uint8),
        "a.weight": torch.tensor([[0.0, -1.5, 3e38], [1e-45, 2.0, -0.0]]),
        "scalar": torch.tensor(-1.5),
        "halves": torch.tensor([1.0, -2.0, torch.inf], dtype=torch.bfloat16),
        "empty": torch.zeros(0, 4, dtype=torch.float16),
    }
    save_file(tensors, FIXTURES / NAME, {"format": "mlx"})
    print((FIXTURES / NAME).read_bytes())
    update_manifest(NAME)


if __name__ == "__main__":
    main()
