// What needs a host program: a tensor map (UTMALDG, UTMASTG), a texture object, a cluster with multicast and
// distributed shared memory. Stands alone: nvcc -std=c++17 -O3 -lineinfo -arch=sm_90a program.cu -o program
// Each kernel is launched once and checked; the exit status is the number of kernels that failed.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda_runtime.h>

#define CHECK(call)                                                                               \
    do {                                                                                          \
        const cudaError_t status = (call);                                                        \
        if (status != cudaSuccess) {                                                              \
            std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call,                    \
                         cudaGetErrorString(status));                                             \
            std::exit(100);                                                                       \
        }                                                                                         \
    } while (0)

static constexpr int WIDTH = 4096, HEIGHT = 4096, BOX_WIDTH = 32, BOX_HEIGHT = 128;

__device__ __forceinline__ unsigned in_shared(const void* pointer)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

__device__ __forceinline__ void prepare(unsigned barrier)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n"
                 "fence.proxy.async.shared::cta;\n"
                 "fence.mbarrier_init.release.cluster;\n" ::"r"(barrier) : "memory");
}

__device__ __forceinline__ void expect(unsigned barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;\n" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void await(unsigned barrier)
{
    asm volatile("{\n.reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
                 "@!done bra again;\n}\n" ::"r"(barrier) : "memory");
}

// A tile of 128 rows x 32 floats a block: one UTMALDG, one UTMASTG, by one thread.
__global__ void copy_tensor(const __grid_constant__ CUtensorMap from, const __grid_constant__ CUtensorMap to)
{
    __shared__ alignas(128) float tile[BOX_WIDTH * BOX_HEIGHT];
    __shared__ alignas(8) unsigned long long barrier;
    const unsigned at = in_shared(&barrier), there = in_shared(tile);
    const int x = blockIdx.x * BOX_WIDTH, y = blockIdx.y * BOX_HEIGHT;
    if (threadIdx.x == 0) {
        prepare(at);
        expect(at, sizeof tile);
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];\n" ::
                     "r"(there), "l"(&from), "r"(x), "r"(y), "r"(at) : "memory");
        await(at);
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n"
                     "cp.async.bulk.commit_group;\n"
                     "cp.async.bulk.wait_group 0;\n" ::"l"(&to), "r"(x), "r"(y), "r"(there) : "memory");
    }
}

// Clusters of two blocks: each asks for half a tile of 16 KiB and has it sent to both; both blocks hold the whole
// tile, and each stores the half that the other asked for.
__global__ void __cluster_dims__(2, 1, 1) copy_multicast(const float4* __restrict__ x, float4* __restrict__ y)
{
    __shared__ alignas(128) float4 tile[1024];
    __shared__ alignas(8) unsigned long long barrier;
    namespace cg = cooperative_groups;
    const unsigned rank = cg::this_cluster().block_rank();
    const size_t start = size_t(blockIdx.x / 2) * 1024;
    const unsigned at = in_shared(&barrier);
    if (threadIdx.x == 0) {
        prepare(at);
        expect(at, sizeof tile);
    }
    cg::this_cluster().sync();
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], 8192, [%2], %3;\n" ::
                     "r"(in_shared(tile + rank * 512)), "l"(x + start + rank * 512), "r"(at), "h"((unsigned short)3) : "memory");
    await(at);
    const unsigned other = (1 - rank) * 512;
#pragma unroll
    for (int j = 0; j < 2; ++j)
        y[start + other + j * 256 + threadIdx.x] = tile[other + j * 256 + threadIdx.x];
    cg::this_cluster().sync();
}

// Clusters of two blocks: each reads its half from global memory and stores what it finds in the other's shared memory.
__global__ void __cluster_dims__(2, 1, 1) copy_distributed(const float* __restrict__ x, float* __restrict__ y)
{
    __shared__ float tile[256];
    namespace cg = cooperative_groups;
    cg::cluster_group cluster = cg::this_cluster();
    const unsigned rank = cluster.block_rank();
    const size_t start = size_t(blockIdx.x / 2) * 512;
    tile[threadIdx.x] = x[start + rank * 256 + threadIdx.x];
    cluster.sync();
    const float* remote = cluster.map_shared_rank(tile, 1 - rank);
    y[start + (1 - rank) * 256 + threadIdx.x] = remote[threadIdx.x];
    cluster.sync();
}

// Through the texture unit: tex1Dfetch of single floats.
__global__ void copy_texture(cudaTextureObject_t x, float* __restrict__ y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = tex1Dfetch<float>(x, i);
}

using Encode = CUresult (*)(CUtensorMap*, CUtensorMapDataType, cuuint32_t, void*, const cuuint64_t*, const cuuint64_t*,
                            const cuuint32_t*, const cuuint32_t*, CUtensorMapInterleave, CUtensorMapSwizzle,
                            CUtensorMapL2promotion, CUtensorMapFloatOOBfill);

static CUtensorMap tensor_map(float* data)
{
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found));
    if (found != cudaDriverEntryPointSuccess || function == nullptr) {
        std::fprintf(stderr, "this driver has no cuTensorMapEncodeTiled\n");
        std::exit(100);
    }
    CUtensorMap map;
    const cuuint64_t sides[2] = {WIDTH, HEIGHT}, strides[1] = {WIDTH * sizeof(float)};
    const cuuint32_t box[2] = {BOX_WIDTH, BOX_HEIGHT}, steps[2] = {1, 1};
    const CUresult status = reinterpret_cast<Encode>(function)(
        &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, data, sides, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (status != CUDA_SUCCESS) {
        std::fprintf(stderr, "cuTensorMapEncodeTiled: error %d\n", int(status));
        std::exit(100);
    }
    return map;
}

// Whether y equals what x held, and y cleared for the next kernel.
static int compare(const char* name, const std::vector<float>& wanted, float* y)
{
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    std::vector<float> got(wanted.size());
    CHECK(cudaMemcpy(got.data(), y, got.size() * sizeof(float), cudaMemcpyDeviceToHost));
    const bool same = std::memcmp(got.data(), wanted.data(), got.size() * sizeof(float)) == 0;
    std::printf("%-24s %s\n", name, same ? "PASS" : "FAIL");
    CHECK(cudaMemset(y, 0xff, got.size() * sizeof(float)));
    return same ? 0 : 1;
}

static int program()
{
    const int count = WIDTH * HEIGHT;
    std::vector<float> host(count);
    unsigned state = 1;
    for (float& value : host)
        value = float((state = state * 1664525u + 1013904223u) >> 8) / 16777216.0f;
    float *x = nullptr, *y = nullptr;
    CHECK(cudaMalloc(&x, count * sizeof(float)));
    CHECK(cudaMalloc(&y, count * sizeof(float)));
    CHECK(cudaMemcpy(x, host.data(), count * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(y, 0xff, count * sizeof(float)));

    int failed = 0;
    copy_tensor<<<dim3(WIDTH / BOX_WIDTH, HEIGHT / BOX_HEIGHT), 32>>>(tensor_map(x), tensor_map(y));
    failed += compare("copy_tensor", host, y);
    copy_multicast<<<count / 4096 * 2, 256>>>(reinterpret_cast<float4*>(x), reinterpret_cast<float4*>(y));
    failed += compare("copy_multicast", host, y);
    copy_distributed<<<count / 256, 256>>>(x, y);
    failed += compare("copy_distributed", host, y);

    cudaResourceDesc resource{};
    resource.resType = cudaResourceTypeLinear;
    resource.res.linear = {x, cudaCreateChannelDesc<float>(), count * sizeof(float)};
    cudaTextureDesc description{};
    description.readMode = cudaReadModeElementType;
    cudaTextureObject_t texture;
    CHECK(cudaCreateTextureObject(&texture, &resource, &description, nullptr));
    copy_texture<<<count / 256, 256>>>(texture, y);
    failed += compare("copy_texture", host, y);
    CHECK(cudaDestroyTextureObject(texture));
    CHECK(cudaFree(x));
    CHECK(cudaFree(y));
    return failed;
}

#ifndef PART_OF_PROBE
int main()
{
    return program();
}
#endif
