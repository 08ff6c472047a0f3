"""Triton: z = x + y, launched ten times; the last nine run from the compiled kernel."""

import torch
import triton
import triton.language as tl


@triton.jit
def add_kernel(x, y, z, n, BLOCK: tl.constexpr):  # noqa: N803, the name is Triton's custom
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < n
    tl.store(z + at, tl.load(x + at, mask) + tl.load(y + at, mask), mask)


n = 1 << 24
x, y = (torch.rand(n, device="cuda") for _ in range(2))
z = torch.empty_like(x)
for _ in range(10):
    add_kernel[(triton.cdiv(n, 1024),)](x, y, z, n, BLOCK=1024)
torch.cuda.synchronize()
assert torch.equal(z, x + y)
