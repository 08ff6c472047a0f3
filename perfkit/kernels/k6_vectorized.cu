// k6: k5 with float4 loads from global and shared memory. The A tile is stored transposed, so that the 8 floats
// of a column of A that a thread needs lie side by side. 16 lanes read B at a stride of 32 bytes: each LDS.128
// of B costs 8 wavefronts instead of 4, which is the bank conflict that k7 removes.
// Grid n/128 x n/128, block 256.
//
// Two slices an iteration of the outer loop, addresses as size_t and pointers that may alias: so written it takes
// 130 registers on compute capability 8.x and 9.0 (nvcc 13.0), two too many for a second block on an SM.
//
// k6b_two_blocks.cu includes this file with other values of these two names.
#ifndef SGEMM_ENTRY
#define SGEMM_ENTRY sgemm_k6
#define SGEMM_BOUNDS
#endif

extern "C" __global__ void SGEMM_BOUNDS SGEMM_ENTRY(const float* A, const float* B, float* C, int n)
{
    constexpr int TILE = 128, DEPTH = 8, SIDE = 8;
    __shared__ __align__(16) float As[DEPTH][TILE];
    __shared__ __align__(16) float Bs[DEPTH][TILE];

    const unsigned t = threadIdx.x;
    const unsigned row = blockIdx.y * TILE, col = blockIdx.x * TILE;  // of the block's tile
    const unsigned col0 = t % (TILE / SIDE) * SIDE;                   // of the thread's outputs in it
    const unsigned row0 = t / (TILE / SIDE) * SIDE;
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
            for (int i = 0; i < SIDE; i += 4) {
                *reinterpret_cast<float4*>(&a_column[i]) = *reinterpret_cast<const float4*>(&As[k][row0 + i]);
            }
#pragma unroll
            for (int j = 0; j < SIDE; j += 4) {
                *reinterpret_cast<float4*>(&b_row_values[j]) = *reinterpret_cast<const float4*>(&Bs[k][col0 + j]);
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
#pragma unroll
        for (int j = 0; j < SIDE; j += 4) {
            *reinterpret_cast<float4*>(&C[(size_t)(row + row0 + i) * n + (col + col0 + j)]) =
                make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
        }
    }
}
