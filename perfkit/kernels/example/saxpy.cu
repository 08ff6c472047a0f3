// y = a x + y, one element a thread, blocks of BLOCK threads.
template <typename T, int BLOCK>
__global__ void __launch_bounds__(BLOCK) saxpy(int n, T a, const T* __restrict__ x, T* __restrict__ y)
{
    const int i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) {
        y[i] = a * x[i] + y[i];
    }
}
