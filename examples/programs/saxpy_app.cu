// A C++ program with kernels of its own: 20 warm-up launches and one that is meant.
// nvcc -O3 -lineinfo -arch=native -o saxpy_app saxpy_app.cu
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

__global__ void fill(float* x, int n, float value)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        x[i] = value;
    }
}

__global__ void saxpy(float* y, const float* x, int n, float alpha)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        y[i] = alpha * x[i] + y[i];
    }
}

static void check(cudaError_t error)
{
    if (error != cudaSuccess) {
        std::fprintf(stderr, "CUDA: %s\n", cudaGetErrorString(error));
        std::exit(1);
    }
}

int main()
{
    const int n = 1 << 24;
    float *x, *y;
    check(cudaMalloc(&x, n * sizeof(float)));
    check(cudaMalloc(&y, n * sizeof(float)));
    fill<<<n / 256, 256>>>(x, n, 1.0f);
    fill<<<n / 256, 256>>>(y, n, 2.0f);
    for (int i = 0; i < 21; ++i) {
        saxpy<<<n / 256, 256>>>(y, x, n, 0.5f);
    }
    check(cudaGetLastError());
    float first;
    check(cudaMemcpy(&first, y, sizeof first, cudaMemcpyDeviceToHost));
    std::printf("y[0] = %g\n", first);
    return first == 12.5f ? 0 : 1;
}
