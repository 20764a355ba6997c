"""Measures PyTorch's scaled_dot_product_attention on the GPU beside gpu_measure_kernels.

usage: measure_sdpa.py [ROWS WIDTH]
One line of JSON per figure; exits with 77 without torch or GPU.
"""
import sys

from torch_gpu import figure, median_ms, torch

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
    figure("sdpa_forward_tflop_per_s", flop / forward_ms * 1e-9, "TFLOP/s", setting)
    output = attend(query, key, value, is_causal=True)
    backward_ms = median_ms(lambda: torch.autograd.grad(output, (query, key, value), gradient,
                                                        retain_graph=True))
    figure("sdpa_backward_tflop_per_s", 2.5 * flop / backward_ms * 1e-9, "TFLOP/s", setting)
