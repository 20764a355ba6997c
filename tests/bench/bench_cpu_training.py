"""The models of bench_cpu_training.c trained by PyTorch on one core, as the same figure.

Usage: bench_cpu_training.py. Exits with 77 where there is no torch.
"""

import json
import statistics
import sys
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError as missing:
    print(f"bench_cpu_training.py: {missing}", file=sys.stderr)
    sys.exit(77)

HEADS = 4
SEQUENCES = 4  # of a microbatch
MICROBATCHES = 4
VOCABULARY = 256


class Block(nn.Module):
    """x += attention(norm1(x)); x += mlp(norm2(x))."""

    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.attention_output = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, HEADS, width // HEADS).transpose(1, 2)
            for part in self.query_key_value(self.norm1(x)).split(width, dim=2)
        )
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attention_output(attended.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Model(nn.Module):
    def __init__(self, block_count, width, length):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width) for _ in range(block_count)))
        self.norm = nn.LayerNorm(width)
        self.logits = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, token):
        x = self.tokens(token) + self.positions.weight
        return self.logits(self.norm(self.blocks(x)))


def optimizer_of(model):
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    groups = [{"params": matrices}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=3e-3, betas=(0.9, 0.95), weight_decay=0.1, foreach=True)


def iterate(model, optimizer, token, target):
    optimizer.zero_grad(set_to_none=True)
    for _ in range(MICROBATCHES):
        logits = model(token).view(-1, VOCABULARY)
        (functional.cross_entropy(logits, target.view(-1)) / MICROBATCHES).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def measure(block_count, width, length):
    """Median over 2 s of iterations, at least 5, after two that do not count."""
    model = Model(block_count, width, length)
    optimizer = optimizer_of(model)
    rows = torch.arange(SEQUENCES * length).view(SEQUENCES, length)
    token, target = rows * 37 % 251, (rows + 1) * 37 % 251
    times, begin = [], time.monotonic()
    while len(times) < 7 or time.monotonic() - begin < 2:
        before = time.monotonic()
        iterate(model, optimizer, token, target)
        times.append(time.monotonic() - before)
    tokens = MICROBATCHES * SEQUENCES * length
    setting = f"torch {torch.__version__} blocks={block_count} width={width} sequence={length}"
    return {
        "bench": "cpu_training_tokens_per_s",
        "value": float(f"{tokens / statistics.median(times[2:]):.6g}"),
        "unit": "tokens/s",
        "setting": setting,
    }


def main():
    torch.manual_seed(1)
    torch.set_num_threads(1)
    for block_count, width, length in ((8, 64, 64), (6, 256, 256)):
        print(json.dumps(measure(block_count, width, length), separators=(",", ":")))


main()
