// Sums and a scan: by atomics, by shuffles, by a tree in shared memory whose loads are predicated off.
__device__ __forceinline__ float warp_sum(float value)
{
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2)
        value += __shfl_down_sync(0xffffffffu, value, offset);
    return value;
}

// One atomic of the warp's 32 lanes for every 32 floats: the result is not used, so it is a RED.
__global__ void reduce_atomic(const float* __restrict__ x, float* __restrict__ sum)
{
    atomicAdd(sum, x[blockIdx.x * blockDim.x + threadIdx.x]);
}

// Blocks of 256, 16 floats a thread, one atomic a block.
__global__ void reduce_shuffle(const float* __restrict__ x, float* __restrict__ sum)
{
    __shared__ float partial[8];
    const float* from = x + size_t(blockIdx.x) * 4096 + threadIdx.x;
    float value = 0.0f;
#pragma unroll
    for (int j = 0; j < 16; ++j)
        value += from[j * 256];
    value = warp_sum(value);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = value;
    __syncthreads();
    if (threadIdx.x == 0) {
#pragma unroll
        for (int j = 1; j < 8; ++j)
            value += partial[j];
        atomicAdd(sum, value);
    }
}

// Blocks of 256, one float a thread: a tree in shared memory. From the second step on whole warps are
// predicated off.
__global__ void reduce_tree(const float* __restrict__ x, float* __restrict__ partial)
{
    __shared__ float values[256];
    const unsigned t = threadIdx.x;
    values[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
#pragma unroll
    for (unsigned s = 128; s > 0; s /= 2) {
        if (t < s)
            values[t] += values[t + s];
        __syncthreads();
    }
    if (t == 0)
        partial[blockIdx.x] = values[0];
}

// What was there comes back: an ATOMG with a result, 32 neighbouring words a warp.
__global__ void exchange(const unsigned* __restrict__ x, unsigned* __restrict__ slots, unsigned* __restrict__ old)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    old[i] = atomicExch(slots + i, x[i]);
}

// Inclusive scan of each 1,024 floats, a block each, by shuffles.
__global__ void scan_blocks(const float* __restrict__ x, float* __restrict__ y)
{
    __shared__ float totals[32];
    const unsigned i = blockIdx.x * 1024 + threadIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float value = x[i];
#pragma unroll
    for (int offset = 1; offset < 32; offset *= 2) {
        const float left = __shfl_up_sync(0xffffffffu, value, offset);
        if (lane >= offset)
            value += left;
    }
    if (lane == 31)
        totals[warp] = value;
    __syncthreads();
    if (warp == 0) {
        float total = totals[lane];
#pragma unroll
        for (int offset = 1; offset < 32; offset *= 2) {
            const float left = __shfl_up_sync(0xffffffffu, total, offset);
            if (lane >= offset)
                total += left;
        }
        totals[lane] = total;
    }
    __syncthreads();
    y[i] = value + (warp > 0 ? totals[warp - 1] : 0.0f);
}
