"""Measures products with a pruned matrix in compressed rows on the GPU, fp32, beside dense ones.

usage: measure_sparse.py [SIZE]
Through PyTorch: cuSPARSE over cuBLAS without TF32, square matrices, as in the README of
Torch-Sputnik and in figure 6 of DynMo (arXiv 2505.14864), whose size, 4096, is the default. F and B
are the matrix and its transpose times a dense one, W the dense product sampled at what is left.
models/DYNAMISM.md says which curve the simulator's case takes. One line of JSON per figure; exits
with 77 without torch or GPU.
"""
import sys

from torch_gpu import figure, median_ms, torch

size = int(sys.argv[1]) if len(sys.argv) > 1 else 4096
torch.backends.cuda.matmul.allow_tf32 = False
dense, other = (torch.randn(size, size, device="cuda") for _ in range(2))
dense_ms = median_ms(lambda: dense @ other)
figure("dense_product_ms", dense_ms, "ms", f"fp32 {size}^3, cuBLAS")
for sparsity in (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98):
    pruned = torch.where(torch.rand_like(dense) < sparsity, 0, dense)
    rows, back = pruned.to_sparse_csr(), pruned.t().to_sparse_csr()
    passes = {"forward": lambda m=rows: m @ other,
              "backward_input": lambda m=back: m @ other,
              "backward_weight": lambda m=rows: torch.sparse.sampled_addmm(m, other, dense, beta=0)}
    for name, run in passes.items():
        figure(f"sparse_{name}_over_dense", median_ms(run, repeats=2, samples=3) / dense_ms, "x",
               f"fp32 {size}^3, sparsity {sparsity}, cuSPARSE")
