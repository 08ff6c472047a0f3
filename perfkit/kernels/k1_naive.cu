// k1: one output a thread. Consecutive threads take consecutive rows, so a warp reads A down a column:
// 32 rows, 32 sectors for one float each, while all of its lanes read the same float of B.
// Grid n/32 x n/32, block 32 x 32.

extern "C" __global__ void sgemm_k1(const float* __restrict__ A, const float* __restrict__ B,
                                    float* __restrict__ C, int n)
{
    const int row = blockIdx.x * 32 + threadIdx.x;
    const int col = blockIdx.y * 32 + threadIdx.y;
    const float* a = A + (size_t)row * n;
    const float* b = B + col;

    float sum = 0.0f;
    for (int k = 0; k < n; ++k) {
        sum += a[k] * b[(size_t)k * n];
    }
    C[(size_t)row * n + col] = sum;
}
