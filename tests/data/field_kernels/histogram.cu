// 256 bins, one atomic for each value.
__global__ void histogram_global(const unsigned char* __restrict__ x, unsigned* __restrict__ bins)
{
    atomicAdd(bins + x[blockIdx.x * blockDim.x + threadIdx.x], 1u);
}

// Blocks of 256, 64 values a thread, counted in shared memory and added up once a block.
__global__ void histogram_shared(const unsigned char* __restrict__ x, unsigned* __restrict__ bins)
{
    __shared__ unsigned own[256];
    own[threadIdx.x] = 0;
    __syncthreads();
    const unsigned char* from = x + size_t(blockIdx.x) * 16384 + threadIdx.x;
#pragma unroll 16
    for (int j = 0; j < 64; ++j)
        atomicAdd(own + from[j * 256], 1u);
    __syncthreads();
    atomicAdd(bins + threadIdx.x, own[threadIdx.x]);
}
