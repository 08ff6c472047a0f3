// k8: k7 with two copies of the shared tiles. While one slice is used, the next one's global loads are in flight
// into registers, and are stored into the other copy after the last step: one barrier a slice instead of two.
// Grid n/128 x n/128, block 256.

extern "C" __global__ void __launch_bounds__(256, 2)
sgemm_k8(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, int n)
{
    constexpr int TILE = 128, DEPTH = 8, SIDE = 8, PIECE = 4, APART = TILE / 2;
    __shared__ __align__(16) float As[2][DEPTH][TILE];
    __shared__ __align__(16) float Bs[2][DEPTH][TILE];

    const int t = threadIdx.x;
    const int col0 = t % (APART / PIECE) * PIECE;
    const int row0 = t / (APART / PIECE) * PIECE;
    const int a_row = t / (DEPTH / 4), a_col = t % (DEPTH / 4) * 4;  // the four elements this thread copies
    const int b_row = t / (TILE / 4), b_col = t % (TILE / 4) * 4;
    const float* a = A + (size_t)(blockIdx.y * TILE + a_row) * n + a_col;
    const float* b = B + (size_t)b_row * n + blockIdx.x * TILE + b_col;

    const auto load = [](const float* from) { return *reinterpret_cast<const float4*>(from); };
    const auto store = [&](int buffer, float4 a4, float4 b4) {
        As[buffer][a_col + 0][a_row] = a4.x;
        As[buffer][a_col + 1][a_row] = a4.y;
        As[buffer][a_col + 2][a_row] = a4.z;
        As[buffer][a_col + 3][a_row] = a4.w;
        *reinterpret_cast<float4*>(&Bs[buffer][b_row][b_col]) = b4;
    };

    float sum[SIDE][SIDE] = {};
    const auto multiply = [&](int buffer) {
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            float a_column[SIDE], b_row_values[SIDE];
#pragma unroll
            for (int piece = 0; piece < 2; ++piece) {
                *reinterpret_cast<float4*>(&a_column[piece * PIECE]) =
                    *reinterpret_cast<const float4*>(&As[buffer][k][row0 + piece * APART]);
                *reinterpret_cast<float4*>(&b_row_values[piece * PIECE]) =
                    *reinterpret_cast<const float4*>(&Bs[buffer][k][col0 + piece * APART]);
            }
#pragma unroll
            for (int i = 0; i < SIDE; ++i) {
#pragma unroll
                for (int j = 0; j < SIDE; ++j) {
                    sum[i][j] += a_column[i] * b_row_values[j];
                }
            }
        }
    };

    store(0, load(a), load(b));
    __syncthreads();
    int buffer = 0;
    for (int k0 = DEPTH; k0 < n; k0 += DEPTH) {
        a += DEPTH;
        b += (size_t)DEPTH * n;
        const float4 a4 = load(a);
        const float4 b4 = load(b);
        multiply(buffer);
        buffer ^= 1;
        store(buffer, a4, b4);
        __syncthreads();
    }
    multiply(buffer);

    float* c = C + (size_t)(blockIdx.y * TILE + row0) * n + blockIdx.x * TILE + col0;
#pragma unroll
    for (int i = 0; i < SIDE; ++i) {
        const int row = i / PIECE * APART + i % PIECE;
#pragma unroll
        for (int piece = 0; piece < 2; ++piece) {
            const int j = piece * PIECE;
            *reinterpret_cast<float4*>(&c[(size_t)row * n + piece * APART]) =
                make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
        }
    }
}
