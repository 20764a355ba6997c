"""Has DeepSpeed build, and train a step of, the PipelineModule that `dynmo export deepspeed` wrote.

Usage: deepspeed_parts.py MODULE.py PARTS.json

As many processes as there are stages, over gloo on this machine: each must hold the layers that the
plan gives it, a list of other length must be refused, and the loss of the step must be that of the
same layers in one process. Exits 77 where deepspeed is missing.
"""

import json
import os
import subprocess
import sys

WIDTH = 4
MICROBATCHES = 4


def layers_of(torch, deepspeed, count):
    from deepspeed.pipe import LayerSpec

    return [LayerSpec(torch.nn.Linear, WIDTH, WIDTH) for _ in range(count)]


def samples(torch):
    torch.manual_seed(5)
    return [(torch.randn(1, WIDTH), torch.randn(1, WIDTH)) for _ in range(MICROBATCHES)]


def loss_alone(torch, count):
    chain = []
    for layer in range(count):
        torch.manual_seed(1234 + layer)
        chain.append(torch.nn.Linear(WIDTH, WIDTH))
    losses = []
    for inputs, target in samples(torch):
        for layer in chain:
            inputs = layer(inputs)
        losses.append(torch.nn.functional.mse_loss(inputs, target).item())
    return sum(losses) / len(losses)


def check_refusal(module, layers, stages):
    try:
        module(layers=layers[1:], num_stages=stages)
    except ValueError as refusal:
        assert "the plan has" in str(refusal), refusal
    else:
        raise AssertionError("a list that is too short was taken")


def work(module_path, parts):
    import torch
    import deepspeed

    deepspeed.init_distributed("gloo")
    rank = torch.distributed.get_rank()
    names = {}
    with open(module_path, encoding="utf-8") as file:
        exec(compile(file.read(), module_path, "exec"), names)
    module = names["PlannedPipelineModule"]
    layers = layers_of(torch, deepspeed, parts[-1])
    stages = len(parts) - 1
    check_refusal(module, layers, stages)
    net = module(layers=layers, num_stages=stages, loss_fn=torch.nn.functional.mse_loss,
                 seed_layers=True, base_seed=1234)
    assert net.parts == parts, net.parts
    assert (net._local_start, net._local_stop) == (parts[rank], parts[rank + 1])
    engine, _, _, _ = deepspeed.initialize(
        model=net,
        model_parameters=[p for p in net.parameters() if p.requires_grad],
        config={
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": MICROBATCHES,
            "optimizer": {"type": "SGD", "params": {"lr": 0.0}},
        },
    )
    loss = engine.train_batch(data_iter=iter(samples(torch)))
    torch.testing.assert_close(float(loss), loss_alone(torch, parts[-1]), rtol=1e-5, atol=1e-6)
    if rank == 0:
        print(f"parts {parts}: built, trained a step, loss as in one process\n"
              f"deepspeed {deepspeed.__version__}, torch {torch.__version__}")


def main():
    module_path, parts_path = sys.argv[1:]
    with open(parts_path, encoding="utf-8") as file:
        parts = json.load(file)["parts"]
    if os.environ.get("RANK"):
        work(module_path, parts)
        return 0
    probe = [sys.executable, "-c", "import deepspeed"]
    if subprocess.run(probe, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
        print("skipped: no deepspeed")
        return 77
    size = len(parts) - 1
    port = str(20000 + os.getpid() % 20000)
    ranks = [
        subprocess.Popen(
            [sys.executable, *sys.argv],
            env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size),
                 "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "DS_ACCELERATOR": "cpu",
                 "OMP_NUM_THREADS": "1"},
        )
        for rank in range(size)
    ]
    codes = [rank.wait() for rank in ranks]
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
