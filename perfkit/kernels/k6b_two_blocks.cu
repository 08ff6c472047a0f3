// k6b: k6 with a promise to the compiler that two blocks of 256 threads fit on an SM, which caps it at
// 65,536 / 512 = 128 registers a thread. Nothing else differs: the code is k6's own file.
#define SGEMM_ENTRY sgemm_k6b
#define SGEMM_BOUNDS __launch_bounds__(256, 2)
#include "k6_vectorized.cu"
