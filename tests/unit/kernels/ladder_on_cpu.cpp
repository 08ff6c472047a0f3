// Runs one kernel of the ladder on the CPU, a thread for a thread, and compares C with chains of FMAs over k.
// Compile with -DSOURCE="k6_vectorized.cu" -DENTRY=sgemm_k6. Usage: PROGRAM N GRID_X GRID_Y BLOCK_X BLOCK_Y
#include <barrier>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <vector>

struct Index { unsigned x, y; };
struct alignas(16) float4 { float x, y, z, w; };
static float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static Index blockIdx;
static thread_local Index threadIdx;
static std::unique_ptr<std::barrier<>> block_barrier;
static void __syncthreads() { block_barrier->arrive_and_wait(); }

#define __global__
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)
#include SOURCE

int main(int, char** argv)
{
    const int n = std::atoi(argv[1]);
    const unsigned grid_x = std::atoi(argv[2]), grid_y = std::atoi(argv[3]);
    const unsigned block_x = std::atoi(argv[4]), block_y = std::atoi(argv[5]);
    const size_t size = (size_t)n * n;
    auto* a = static_cast<float*>(std::aligned_alloc(64, size * 4));
    auto* b = static_cast<float*>(std::aligned_alloc(64, size * 4));
    auto* c = static_cast<float*>(std::aligned_alloc(64, size * 4));
    std::mt19937 random(1);
    std::uniform_real_distribution<float> uniform(-1.0f, 1.0f);
    for (size_t i = 0; i < size; ++i) {
        a[i] = uniform(random);
        b[i] = uniform(random);
        c[i] = NAN;
    }
    block_barrier = std::make_unique<std::barrier<>>(block_x * block_y);
    std::barrier<> next_block(block_x * block_y);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < block_x * block_y; ++t) {
        threads.emplace_back([=, &next_block] {
            threadIdx = {t % block_x, t / block_x};
            for (unsigned y = 0; y < grid_y; ++y) {
                for (unsigned x = 0; x < grid_x; ++x) {
                    next_block.arrive_and_wait();
                    if (t == 0) blockIdx = {x, y};
                    next_block.arrive_and_wait();
                    ENTRY(a, b, c, n);
                }
            }
        });
    }
    for (auto& thread : threads) thread.join();
    for (int row = 0; row < n; ++row) {
        for (int col = 0; col < n; ++col) {
            float sum = 0.0f;
            for (int k = 0; k < n; ++k) sum = std::fma(a[(size_t)row * n + k], b[(size_t)k * n + col], sum);
            if (c[(size_t)row * n + col] != sum) {
                std::printf("C[%d][%d] is %.9g, not %.9g\n", row, col, c[(size_t)row * n + col], sum);
                return 1;
            }
        }
    }
    std::puts("equal");
}
