// k2: k1 with x and y swapped. Consecutive threads take consecutive columns, so a warp reads 128 contiguous
// bytes of B (4 sectors) and one float of A (1 sector), and writes 128 contiguous bytes of C.
// Grid n/32 x n/32, block 32 x 32.

extern "C" __global__ void sgemm_k2(const float* __restrict__ A, const float* __restrict__ B,
                                    float* __restrict__ C, int n)
{
    const int row = blockIdx.y * 32 + threadIdx.y;
    const int col = blockIdx.x * 32 + threadIdx.x;
    const float* a = A + (size_t)row * n;
    const float* b = B + col;

    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        sum += a[k] * b[(size_t)k * n];
    }
    C[(size_t)row * n + col] = sum;
}
