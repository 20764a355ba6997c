"""Has DeepSpeed train the split that `dynmo export deepspeed` wrote, beside the even one (gain.py).

Usage: DYNMO=... deepspeed_gain.py. Exits 77 where deepspeed is missing.
"""

import sys

import gain
import torch


def build(names):
    import deepspeed

    net = names["PlannedPipelineModule"](
        layers=[deepspeed.pipe.LayerSpec(gain.Layer, layer) for layer in range(len(gain.UNITS))],
        num_stages=gain.RANKS, loss_fn=torch.nn.functional.mse_loss)
    engine, _, _, _ = deepspeed.initialize(
        model=net,
        model_parameters=list(net.parameters()),
        config={
            "train_micro_batch_size_per_gpu": 1,
            "gradient_accumulation_steps": gain.MICROBATCHES,
            "optimizer": {"type": "SGD", "params": {"lr": 0.0}},
        },
    )
    data = [(torch.randn(1, gain.WIDTH), torch.randn(1, gain.WIDTH))] * gain.MICROBATCHES
    return net.forward_funcs, net._local_start, lambda: engine.train_batch(data_iter=iter(data))


def start():
    import deepspeed

    deepspeed.init_distributed("gloo")


if __name__ == "__main__":
    sys.exit(gain.main("deepspeed", __file__, start, build, has_ends=False))
