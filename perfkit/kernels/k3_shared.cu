// k3: the block copies 32 x 32 tiles of A and B into shared memory, so that a float is fetched from L2 once
// for 32 uses. Two barriers a tile: one before reading it, one before overwriting it.
// Grid n/32 x n/32, block 32 x 32.

extern "C" __global__ void sgemm_k3(const float* __restrict__ A, const float* __restrict__ B,
                                    float* __restrict__ C, int n)
{
    constexpr int TILE = 32;
    __shared__ float As[TILE][TILE];
    __shared__ float Bs[TILE][TILE];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty;
    const int col = blockIdx.x * TILE + tx;
    const float* a = A + (size_t)row * n + tx;
    const float* b = B + (size_t)ty * n + col;

    float sum = 0.0f;
    for (int k0 = 0; k0 < n; k0 += TILE) {
        As[ty][tx] = *a;
        Bs[ty][tx] = *b;
        a += TILE;
        b += (size_t)TILE * n;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < TILE; ++k) {
            sum += As[ty][k] * Bs[k][tx];
        }
        __syncthreads();
    }
    C[(size_t)row * n + col] = sum;
}
