// y = x transposed, n x n floats, by blocks of 32 x 8 threads on tiles of 32 x 32.
static constexpr int TILE = 32, ROWS = 8;

__global__ void transpose_naive(int n, const float* __restrict__ x, float* __restrict__ y)
{
    const int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
#pragma unroll
    for (int j = 0; j < TILE; j += ROWS)
        y[size_t(column) * n + row + j] = x[size_t(row + j) * n + column];
}

template <int PITCH>
__device__ __forceinline__ void through_shared(int n, const float* __restrict__ x, float* __restrict__ y)
{
    __shared__ float tile[TILE][PITCH];
    const int column = blockIdx.x * TILE + threadIdx.x, row = blockIdx.y * TILE + threadIdx.y;
#pragma unroll
    for (int j = 0; j < TILE; j += ROWS)
        tile[threadIdx.y + j][threadIdx.x] = x[size_t(row + j) * n + column];
    __syncthreads();
    const int to_column = blockIdx.y * TILE + threadIdx.x, to_row = blockIdx.x * TILE + threadIdx.y;
#pragma unroll
    for (int j = 0; j < TILE; j += ROWS)
        y[size_t(to_row + j) * n + to_column] = tile[threadIdx.x][threadIdx.y + j];
}

__global__ void transpose_tiled(int n, const float* __restrict__ x, float* __restrict__ y)
{
    through_shared<TILE>(n, x, y);
}

__global__ void transpose_padded(int n, const float* __restrict__ x, float* __restrict__ y)
{
    through_shared<TILE + 1>(n, x, y);
}
