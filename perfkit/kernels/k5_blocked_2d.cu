// k5: register blocking in two dimensions. A block makes a 128 x 128 tile of C from slices 8 deep; a thread
// keeps 8 x 8 outputs and adds one outer product a step: 16 floats read from shared memory for 64 FMAs.
// Every load, global or shared, is of one float. The shared reads are volatile for that reason alone: the compiler
// would merge neighbouring ones into LDS.128, and k5 would be k6 in all but name.
// Grid n/128 x n/128, block 256.

extern "C" __global__ void sgemm_k5(const float* __restrict__ A, const float* __restrict__ B,
                                    float* __restrict__ C, int n)
{
    constexpr int TILE = 128, DEPTH = 8, SIDE = 8, THREADS = 256;
    __shared__ float As[TILE][DEPTH];
    __shared__ float Bs[DEPTH][TILE];

    const int t = threadIdx.x;
    const int col0 = t % (TILE / SIDE) * SIDE;
    const int row0 = t / (TILE / SIDE) * SIDE;
    const int a_row = t / DEPTH, a_col = t % DEPTH;  // the first of four elements that this thread copies
    const int b_row = t / TILE, b_col = t % TILE;
    const float* a = A + (size_t)(blockIdx.y * TILE + a_row) * n + a_col;
    const float* b = B + (size_t)b_row * n + blockIdx.x * TILE + b_col;

    const auto read = [](const float& element) { return *const_cast<const volatile float*>(&element); };

    float sum[SIDE][SIDE] = {};
    for (int k0 = 0; k0 < n; k0 += DEPTH) {
#pragma unroll
        for (int i = 0; i < TILE; i += THREADS / DEPTH) {
            As[a_row + i][a_col] = a[(size_t)i * n];
        }
#pragma unroll
        for (int i = 0; i < DEPTH; i += THREADS / TILE) {
            Bs[b_row + i][b_col] = b[(size_t)i * n];
        }
        a += DEPTH;
        b += (size_t)DEPTH * n;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; ++k) {
            float a_column[SIDE], b_row_values[SIDE];
#pragma unroll
            for (int i = 0; i < SIDE; ++i) {
                a_column[i] = read(As[row0 + i][k]);
                b_row_values[i] = read(Bs[k][col0 + i]);
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

    float* c = C + (size_t)(blockIdx.y * TILE + row0) * n + blockIdx.x * TILE + col0;
#pragma unroll
    for (int i = 0; i < SIDE; ++i) {
#pragma unroll
        for (int j = 0; j < SIDE; ++j) {
            c[(size_t)i * n + j] = sum[i][j];
        }
    }
}
