// k4: register blocking in one dimension. A block makes a 64 x 64 tile of C from slices 8 deep; a thread keeps
// 8 outputs of one column in registers, so that a float of B read from shared memory is used 8 times.
// Grid n/64 x n/64, block 512.

extern "C" __global__ void sgemm_k4(const float* __restrict__ A, const float* __restrict__ B,
                                    float* __restrict__ C, int n)
{
    constexpr int TILE = 64, DEPTH = 8, ROWS = 8;
    __shared__ float As[TILE][DEPTH];
    __shared__ float Bs[DEPTH][TILE];

    const int t = threadIdx.x;
    const int col = t % TILE;
    const int row0 = t / TILE * ROWS;
    const int a_row = t / DEPTH, a_col = t % DEPTH;  // the element of each slice that this thread copies
    const int b_row = t / TILE, b_col = t % TILE;
    const float* a = A + (size_t)(blockIdx.y * TILE + a_row) * n + a_col;
    const float* b = B + (size_t)b_row * n + blockIdx.x * TILE + b_col;

    float sum[ROWS] = {};
    for (int k0 = 0; k0 < n; k0 += DEPTH) {
        As[a_row][a_col] = *a;
        Bs[b_row][b_col] = *b;
        a += DEPTH;
        b += (size_t)DEPTH * n;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            const float b_value = Bs[k][col];
#pragma unroll
            for (int i = 0; i < ROWS; ++i) {
                sum[i] += As[row0 + i][k] * b_value;
            }
        }
        __syncthreads();
    }

    float* c = C + (size_t)(blockIdx.y * TILE + row0) * n + blockIdx.x * TILE + col;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        c[(size_t)i * n] = sum[i];
    }
}
