// k7: k6b with each thread's 8 x 8 outputs split into four 4 x 4 pieces, 64 rows and 64 columns apart. 16 lanes
// now read 256 contiguous bytes of B with one LDS.128, which has no bank conflict.
// Grid n/128 x n/128, block 256.

extern "C" __global__ void __launch_bounds__(256, 2)
sgemm_k7(const float* A, const float* B, float* C, int n)
{
    constexpr int TILE = 128, DEPTH = 8, SIDE = 8, PIECE = 4, APART = TILE / 2;
    __shared__ __align__(16) float As[DEPTH][TILE];
    __shared__ __align__(16) float Bs[DEPTH][TILE];

    const unsigned t = threadIdx.x;
    const unsigned row = blockIdx.y * TILE, col = blockIdx.x * TILE;  // of the block's tile
    const unsigned col0 = t % (APART / PIECE) * PIECE;                // of the thread's first piece in it
    const unsigned row0 = t / (APART / PIECE) * PIECE;
    const unsigned a_row = t / (DEPTH / 4), a_col = t % (DEPTH / 4) * 4;  // the four elements this thread copies
    const unsigned b_row = t / (TILE / 4), b_col = t % (TILE / 4) * 4;

    float sum[SIDE][SIDE] = {};
#pragma unroll 2
    for (int k0 = 0; k0 < n; k0 += DEPTH) {
        const float4 a4 = *reinterpret_cast<const float4*>(&A[(size_t)(row + a_row) * n + k0 + a_col]);
        const float4 b4 = *reinterpret_cast<const float4*>(&B[(size_t)(k0 + b_row) * n + col + b_col]);
        As[a_col + 0][a_row] = a4.x;
        As[a_col + 1][a_row] = a4.y;
        As[a_col + 2][a_row] = a4.z;
        As[a_col + 3][a_row] = a4.w;
        *reinterpret_cast<float4*>(&Bs[b_row][b_col]) = b4;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            float a_column[SIDE], b_row_values[SIDE];
#pragma unroll
            for (int piece = 0; piece < 2; ++piece) {
                *reinterpret_cast<float4*>(&a_column[piece * PIECE]) =
                    *reinterpret_cast<const float4*>(&As[k][row0 + piece * APART]);
            }
#pragma unroll
            for (int piece = 0; piece < 2; ++piece) {
                *reinterpret_cast<float4*>(&b_row_values[piece * PIECE]) =
                    *reinterpret_cast<const float4*>(&Bs[k][col0 + piece * APART]);
            }
#pragma unroll
            for (int i = 0; i < SIDE; ++i) {
#pragma unroll
                for (int j = 0; j < SIDE; ++j) {
                    sum[i][j] += a_column[i] * b_row_values[j];
                }
            }
        }
        __syncthreads();
    }

#pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        const unsigned out_row = row + row0 + i / PIECE * APART + i % PIECE;
#pragma unroll
        for (int piece = 0; piece < 2; ++piece) {
            const int j = piece * PIECE;
            *reinterpret_cast<float4*>(&C[(size_t)out_row * n + (col + col0 + piece * APART)]) =
                make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
        }
    }
}
