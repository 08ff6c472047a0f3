// C = A x B in tiles of 16 x 16, half in, float out; a warp a tile, straight from global memory.
#include <mma.h>

__global__ void matmul_wmma(int n, const __half* __restrict__ a, const __half* __restrict__ b, float* __restrict__ c)
{
    using namespace nvcuda;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    const int row = (blockIdx.y * 4 + threadIdx.y) * 16, column = blockIdx.x * 16;
    wmma::fill_fragment(sum, 0.0f);
    for (int k = 0; k < n; k += 16) {
        wmma::load_matrix_sync(left, a + size_t(row) * n + k, n);
        wmma::load_matrix_sync(right, b + size_t(k) * n + column, n);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(c + size_t(row) * n + column, sum, n, wmma::mem_row_major);
}

// A copy through shared memory and ldmatrix: a warp takes four 8 x 8 matrices of half, 512 bytes, at a time.
__global__ void copy_ldmatrix(const uint4* __restrict__ x, unsigned* __restrict__ y)
{
    __shared__ uint4 rows[256];
    const unsigned t = threadIdx.x, lane = t % 32, warp = t / 32;
    rows[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    unsigned r0, r1, r2, r3;
    const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(rows + t));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(address));
    // Lane l holds columns 2 (l % 4) and the next of row l / 4 of each matrix: word l of its 128 bytes.
    unsigned* to = y + (size_t(blockIdx.x) * 8 + warp) * 128 + lane;
    to[0] = r0;
    to[32] = r1;
    to[64] = r2;
    to[96] = r3;
}
