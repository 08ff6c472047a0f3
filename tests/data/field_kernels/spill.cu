// One function, built with two sets of flags: plainly, and with -maxrregcount=32, where its N accumulators
// do not fit. 128 steps of N FMAs a thread.
template <int N>
__global__ void spill(const float* __restrict__ x, float* __restrict__ y)
{
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    const float value = x[i];
    float sums[N];
#pragma unroll
    for (int j = 0; j < N; ++j)
        sums[j] = float(j);
#pragma unroll 1
    for (int k = 0; k < 128; ++k) {
        const float factor = value * float(k);
#pragma unroll
        for (int j = 0; j < N; ++j)
            sums[j] = fmaf(sums[j], 0.5f, factor);
    }
    float total = 0.0f;
#pragma unroll
    for (int j = 0; j < N; ++j)
        total += sums[j];
    y[i] = total;
}
