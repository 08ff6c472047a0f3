// Kernels that move data: how many bytes, in how many requests, can be counted by hand.
#include <cuda_fp16.h>

__global__ void copy(const float* __restrict__ x, float* __restrict__ y)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i];
}

__global__ void copy_vector(const float4* __restrict__ x, float4* __restrict__ y)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i];
}

__global__ void fill(float value, float* __restrict__ y)
{
    y[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

// Every eighth float: one sector of 32 bytes for each 4 that are wanted.
__global__ void copy_strided(const float* __restrict__ x, float* __restrict__ y)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[8 * i];
}

// The other way round: one sector written for each 4 bytes.
__global__ void scatter_strided(const float* __restrict__ x, float* __restrict__ y)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[8 * i] = x[i];
}

__global__ void gather(const int* __restrict__ index, const float* __restrict__ x, float* __restrict__ y)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[index[i]];
}

__global__ void axpy_double(double a, const double* __restrict__ x, double* __restrict__ y)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = fma(a, x[i], y[i]);
}

__global__ void axpy_half(float a, const __half2* __restrict__ x, __half2* __restrict__ y)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = __hfma2(__float2half2_rn(a), x[i], y[i]);
}

__global__ void copy_byte(const unsigned char* __restrict__ x, unsigned char* __restrict__ y)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i];
}
