#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The same AdamW step as `./run bench optimizer --only AdamW`, as PyTorch and DeepSpeed take it.

For whoever has them; building, testing and ./run bench need no Python:

    python3 -m venv venv && venv/bin/pip install torch deepspeed
    ./run bench optimizer --only 'AdamW, fused, of' --threads 2
    venv/bin/python bench/adamw_elsewhere.py --threads 2

Prints nanoseconds a parameter of each that is installed: the median and the best of the repeats.
mpt's row counts 28 bytes a parameter: 28 / (its GB/s) are its nanoseconds. PyTorch's and
DeepSpeed's steps here move as many, fp32 gradients and no 16-bit copy of the weights.
"""
import argparse
import statistics
import time


def measure(name, step, count, repeats):
    step()  # allocates moments, compiles
    took = []
    for _ in range(repeats):
        began = time.perf_counter()
        step()
        took.append((time.perf_counter() - began) / count * 1e9)
    print(f"{name:32} {statistics.median(took):8.3f} ns a parameter, best {min(took):.3f}")


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--parameters", type=int, default=100_000_000)
    options.add_argument("--repeats", type=int, default=7)
    given = options.parse_args()

    import torch

    torch.set_num_threads(given.threads)
    print(f"PyTorch {torch.__version__}, {given.threads} threads, {given.parameters} parameters")

    def parameter():
        p = torch.nn.Parameter(torch.randn(given.parameters) * 0.02)
        p.grad = torch.randn(given.parameters) * 0.1
        return [p]

    settings = {"lr": 1e-5, "weight_decay": 0.1}
    for name, how in {"torch, one tensor at a time": {"foreach": False},
                      "torch, foreach": {"foreach": True},
                      "torch, fused": {"fused": True}}.items():
        try:
            adam = torch.optim.AdamW(parameter(), **settings, **how)
            measure(name, adam.step, given.parameters, given.repeats)
        except (RuntimeError, TypeError) as e:  # fused on a CPU came with PyTorch 2.4
            print(f"{name:32} not here: {e}")
    try:
        from deepspeed.ops.adam import DeepSpeedCPUAdam

        adam = DeepSpeedCPUAdam(parameter(), adamw_mode=True, **settings)
        measure("DeepSpeedCPUAdam", adam.step, given.parameters, given.repeats)
    except Exception as e:  # compiles on first use, and says in many ways that it cannot
        print(f"{'DeepSpeedCPUAdam':32} not here: {e}")


if __name__ == "__main__":
    main()
