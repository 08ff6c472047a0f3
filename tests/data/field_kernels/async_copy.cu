// Copies through shared memory without registers: cp.async (LDGSTS), and in bulk by the TMA unit (UBLKCP).
#include <cuda_fp16.h>

__device__ __forceinline__ unsigned shared_address(const void* pointer)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// 16 bytes a thread, past L1 (.cg); then an LDS.128 and an STG.128.
__global__ void copy_async(const float4* __restrict__ x, float4* __restrict__ y)
{
    __shared__ float4 tile[256];
    const size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n"
                 "cp.async.commit_group;\n"
                 "cp.async.wait_group 0;\n" ::"r"(shared_address(tile + threadIdx.x)), "l"(x + i) : "memory");
    y[i] = tile[threadIdx.x];
}

// 4 bytes a thread, through L1 (.ca).
__global__ void copy_async_narrow(const float* __restrict__ x, float* __restrict__ y)
{
    __shared__ float tile[256];
    const size_t i = size_t(blockIdx.x) * 256 + threadIdx.x;
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n"
                 "cp.async.commit_group;\n"
                 "cp.async.wait_group 0;\n" ::"r"(shared_address(tile + threadIdx.x)), "l"(x + i) : "memory");
    y[i] = tile[threadIdx.x];
}

__device__ __forceinline__ void wait_for(unsigned barrier)
{
    asm volatile("{\n.reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
                 "@!done bra again;\n}\n" ::"r"(barrier) : "memory");
}

// 16 KiB a block: one bulk load, one bulk store, by one thread.
__global__ void copy_bulk(const float4* __restrict__ x, float4* __restrict__ y)
{
    __shared__ alignas(128) float4 tile[1024];
    __shared__ alignas(8) unsigned long long barrier;
    const unsigned at = shared_address(&barrier), to = shared_address(tile);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n"
                     "fence.proxy.async.shared::cta;\n"
                     "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16384;\n"
                     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%1], [%2], 16384, [%0];\n" ::
                     "r"(at), "r"(to), "l"(x + size_t(blockIdx.x) * 1024) : "memory");
        wait_for(at);
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 16384;\n"
                     "cp.async.bulk.commit_group;\n"
                     "cp.async.bulk.wait_group 0;\n" ::
                     "l"(y + size_t(blockIdx.x) * 1024), "r"(to) : "memory");
    }
}

// 16 KiB a block: a bulk load, then each thread reads shared memory and stores.
__global__ void load_bulk(const float4* __restrict__ x, float4* __restrict__ y)
{
    __shared__ alignas(128) float4 tile[1024];
    __shared__ alignas(8) unsigned long long barrier;
    const unsigned at = shared_address(&barrier), to = shared_address(tile);
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n"
                     "fence.proxy.async.shared::cta;\n" ::"r"(at) : "memory");
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16384;\n"
                     "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%1], [%2], 16384, [%0];\n" ::
                     "r"(at), "r"(to), "l"(x + size_t(blockIdx.x) * 1024) : "memory");
    wait_for(at);
#pragma unroll
    for (int j = 0; j < 4; ++j)
        y[size_t(blockIdx.x) * 1024 + j * 256 + threadIdx.x] = tile[j * 256 + threadIdx.x];
}
