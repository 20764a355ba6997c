"""What PyTorch computes again of a block, and what its norms touch, beside the cost model.

Usage: pytorch_parts.py NONE.json EARLY-STOP.json FULL.json, of
       dynmo model --model llama-2-7b --sequence-length 64 --recompute ... --json
"""

import json
import sys

try:
    import torch
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import FlopCounterMode
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TOKENS, HIDDEN, INNER, HEADS = 64, 4096, 11008, 32


class Block(torch.nn.Module):
    """Of Llama 2 7B."""

    def __init__(self):
        super().__init__()
        linear = torch.nn.Linear
        self.query_key_value = linear(HIDDEN, 3 * HIDDEN, bias=False)
        self.output = linear(HIDDEN, HIDDEN, bias=False)
        self.gate = linear(HIDDEN, INNER, bias=False)
        self.up = linear(HIDDEN, INNER, bias=False)
        self.down = linear(INNER, HIDDEN, bias=False)

    def forward(self, x):
        heads = [part.reshape(HEADS, TOKENS, -1) for part in self.query_key_value(x).chunk(3, -1)]
        attended = torch.nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        x = x + self.output(attended.reshape(TOKENS, HIDDEN))
        return x + self.down(torch.nn.functional.silu(self.gate(x)) * self.up(x))


def products(wrap):
    """FLOP of the products of a forward and a backward of a block."""
    block = wrap(Block())
    counter = FlopCounterMode(display=False)
    with counter:
        block(torch.randn(TOKENS, HIDDEN, requires_grad=True)).sum().backward()
    counts = counter.get_flop_counts()["Global"]
    return sum(count for operator, count in counts.items() if str(operator) == "aten.mm")


class Touched(TorchDispatchMode):
    """Bytes that operators read and write, but for what is the same for a whole row."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, operator, types, arguments=(), named=None):
        result = operator(*arguments, **(named or {}))
        if not operator.is_view:
            leaves = torch.utils._pytree.tree_leaves((arguments, named, result))
            for leaf in leaves:
                if isinstance(leaf, torch.Tensor) and 0 not in leaf.stride():
                    self.bytes += leaf.numel() * leaf.element_size()
        return result


def touched(function):
    """Bytes of a number of 16 bits, in F and in B."""
    x = torch.randn(TOKENS, HIDDEN, dtype=torch.bfloat16, requires_grad=True)
    with Touched() as forward:
        y = function(x)
    gradient = torch.ones_like(y)
    with Touched() as backward:
        y.backward(gradient)
    return [round(of.bytes / x.numel(), 0) for of in (forward, backward)]


weight = torch.ones(HIDDEN, dtype=torch.bfloat16, requires_grad=True)
turns = torch.ones(1, 1, 64, dtype=torch.complex64)


def normed(x):
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).type_as(x) * weight


def rotated(x):
    pairs = torch.view_as_complex(x.float().reshape(TOKENS, HEADS, 64, 2))
    return torch.view_as_real(pairs * turns).flatten(1).type_as(x)


made = [
    products(lambda block: block),
    products(lambda block: checkpoint_wrapper(block, preserve_rng_state=False)),
    products(lambda block: checkpoint_wrapper(block, preserve_rng_state=False, early_stop=False)),
]
model = [json.load(open(name))["backward_input_flop"][1] for name in sys.argv[1:]]
assert made[2] - made[1] == model[2] - model[1] > 0, (made, model)  # the last product
assert made[1] - made[0] == 2 * TOKENS * HIDDEN * (4 * HIDDEN + 2 * INNER), made
assert touched(normed) == [36, 92], touched(normed)
assert touched(rotated) == [20, 20], touched(rotated)
print("PyTorch stops early, norms and rotates as the cost model says")
