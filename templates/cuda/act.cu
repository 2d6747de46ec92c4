/* x * sigmoid(x). */
static __device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }

