"""Measures PyTorch's scaled_dot_product_attention on the GPU beside gpu_measure_kernels.

usage: measure_sdpa.py [ROWS WIDTH]
One line of JSON per figure; exits with 77 without torch or GPU.
"""
import json
import sys

try:
    import torch
except ImportError:
    print("skipped: no torch")
    sys.exit(77)
if not torch.cuda.is_available():
    print("skipped: torch sees no GPU")
    sys.exit(77)


def median_ms(run, repeats=5, samples=5):
    """Median time of one run, by events, after one sample that is not counted."""
    times = []
    for _ in range(samples + 1):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(repeats):
            run()
        end.record()
        torch.cuda.synchronize()
        times.append(begin.elapsed_time(end) / repeats)
    return sorted(times[1:])[samples // 2]


def figure(name, value, setting):
    print(json.dumps({"bench": name, "value": value, "unit": "TFLOP/s", "setting": setting}))


rows, width = (int(argument) for argument in sys.argv[1:3]) if len(sys.argv) > 2 else (4096, 2048)
for head_width in (64, 128):
    heads = width // head_width
    shape = (1, heads, rows, head_width)
    query, key, value = (torch.randn(shape, device="cuda", dtype=torch.bfloat16,
                                     requires_grad=True) for _ in range(3))
    gradient = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    attend = torch.nn.functional.scaled_dot_product_attention
    flop = 4.0 * heads * head_width * rows * rows / 2
    setting = f"bf16 rows={rows} heads={heads} width={head_width} every 1. block"
    forward_ms = median_ms(lambda: attend(query, key, value, is_causal=True))
    figure("sdpa_forward_tflop_per_s", flop / forward_ms * 1e-9, setting)
    output = attend(query, key, value, is_causal=True)
    backward_ms = median_ms(lambda: torch.autograd.grad(output, (query, key, value), gradient,
                                                        retain_graph=True))
    figure("sdpa_backward_tflop_per_s", 2.5 * flop / backward_ms * 1e-9, setting)
