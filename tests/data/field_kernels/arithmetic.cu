// Kernels whose instructions can be counted by hand.
#include <math_constants.h>

// Lanes of one warp leave the loop after 8, 16, 24 and 32 steps: the warp takes 32, with 20 lanes on average.
__global__ void polynomial_divergent(const float* __restrict__ x, float* __restrict__ y)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const float value = x[i];
    const int degree = 8 * (1 + (i & 3));
    float sum = 1.0f;
#pragma unroll 1
    for (int k = 0; k < degree; ++k)
        sum = fmaf(sum, value, 0.5f);
    y[i] = sum;
}

// Coefficients from the constant bank: no loads at all.
__constant__ float coefficients[16] = {
    0.5f, -0.25f, 0.125f, 1.5f, -1.25f, 0.75f, 0.375f, -0.625f,
    1.0f, 0.0625f, -0.875f, 0.4375f, 0.3125f, -0.5625f, 0.1875f, 1.125f};

__global__ void polynomial_constant(const float* __restrict__ x, float* __restrict__ y)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const float value = x[i];
    float sum = 0.0f;
#pragma unroll
    for (int k = 0; k < 16; ++k)
        sum = fmaf(sum, value, coefficients[k]);
    y[i] = sum;
}

// An array that is indexed by data has to be in local memory: 16 stores and 16 loads a thread.
__global__ void local_array(const int* __restrict__ index, float* __restrict__ y)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float values[16];
    int at = index[i] & 15;
#pragma unroll 1
    for (int k = 0; k < 16; ++k) {
        values[at] = float(k);
        at = (at + 1) & 15;
    }
    float sum = 0.0f;
#pragma unroll 1
    for (int k = 0; k < 16; ++k) {
        sum = fmaf(sum, 0.5f, values[at]);
        at = (at + 3) & 15;
    }
    y[i] = sum;
}

// Rows of 4,096 floats, a block of 256 each, 16 floats a thread kept in registers.
__device__ __forceinline__ float block_reduce(float value, bool largest, float* shared)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, value, offset);
        value = largest ? fmaxf(value, other) : value + other;
    }
    if (threadIdx.x % 32 == 0)
        shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = shared[0];
#pragma unroll
    for (int j = 1; j < 8; ++j)
        value = largest ? fmaxf(value, shared[j]) : value + shared[j];
    return value;
}

__global__ void softmax(const float* __restrict__ x, float* __restrict__ y)
{
    __shared__ float maxima[8], sums[8];
    const size_t start = size_t(blockIdx.x) * 4096 + threadIdx.x;
    float values[16], largest = -CUDART_INF_F, sum = 0.0f;
#pragma unroll
    for (int j = 0; j < 16; ++j) {
        values[j] = x[start + j * 256];
        largest = fmaxf(largest, values[j]);
    }
    largest = block_reduce(largest, true, maxima);
#pragma unroll
    for (int j = 0; j < 16; ++j) {
        values[j] = exp2f((values[j] - largest) * 1.4426950408889634f);
        sum += values[j];
    }
    const float scale = 1.0f / block_reduce(sum, false, sums);
#pragma unroll
    for (int j = 0; j < 16; ++j)
        y[start + j * 256] = values[j] * scale;
}

// Five points, edges clamped, blocks of 32 x 8.
__global__ void stencil(int n, const float* __restrict__ x, float* __restrict__ y)
{
    const int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 8 + threadIdx.y;
    const int left = max(column - 1, 0), right = min(column + 1, n - 1);
    const int up = max(row - 1, 0), down = min(row + 1, n - 1);
    const float middle = x[size_t(row) * n + column];
    const float sides = x[size_t(row) * n + left] + x[size_t(row) * n + right];
    const float ends = x[size_t(up) * n + column] + x[size_t(down) * n + column];
    y[size_t(row) * n + column] = fmaf(0.125f, sides + ends, 0.5f * middle);
}

// y = A x, A is m x 4096: a warp a row, a float4 a lane at a time.
__global__ void matvec(const float4* __restrict__ a, const float4* __restrict__ x, float* __restrict__ y)
{
    const unsigned row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    const float4* from = a + size_t(row) * 1024;
    float sum = 0.0f;
#pragma unroll 8
    for (unsigned j = lane; j < 1024; j += 32) {
        const float4 p = from[j], q = x[j];
        sum = fmaf(p.x, q.x, sum);
        sum = fmaf(p.y, q.y, sum);
        sum = fmaf(p.z, q.z, sum);
        sum = fmaf(p.w, q.w, sum);
    }
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, offset);
    if (lane == 0)
        y[row] = sum;
}
