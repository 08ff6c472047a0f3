// Readings of the clock on the device itself, and a delay of a known number of SM cycles.

// Every SM writes its cycle counter and the GPU's global timer (ns) into its own column of `row`. Two rows give the cycles that
// each SM ran between them, and with the time between them its mean clock. One 16-byte store keeps the two values
// together where several blocks land on the same SM.
extern "C" __global__ void perfkit_stamp(ulonglong2 *out, long long row, int columns)
{
    if (threadIdx.x != 0) return;
    unsigned sm;
    unsigned long long now;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    unsigned long long cycles = clock64();
    if (sm < columns) out[row * columns + sm] = make_ulonglong2(cycles, now);
}

// One thread that waits for `cycles` SM cycles.
extern "C" __global__ void perfkit_spin(long long cycles)
{
    long long start = clock64();
    while (clock64() - start < cycles) { }
}

// Reads `count` 16-byte words with all threads. The store never happens in practice (the words are zero); it keeps the loads.
extern "C" __global__ void perfkit_read(uint4 *words, long long count)
{
    unsigned seen = 0;
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        uint4 word = words[i];
        seen |= word.x | word.y | word.z | word.w;
    }
    if (seen == 0x5eedu) words[0].x = seen;
}
