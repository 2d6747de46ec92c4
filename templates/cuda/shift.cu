enum { SHIFT_THREADS = 256 };

/*
 * Every channel's columns move left by some tokens, over the oldest ones.
 * Grid ceil(channels / SHIFT_THREADS), block SHIFT_THREADS; a thread moves one channel, byte by byte.
 */
extern "C" __global__ void __launch_bounds__(SHIFT_THREADS)
    shift_kernel(unsigned char *state, long long channels, long long columns_bytes, long long tokens_bytes) {
    const long long channel = (long long)blockIdx.x * SHIFT_THREADS + threadIdx.x;
    if (channel >= channels)
        return;
    state += channel * columns_bytes;
    for (long long i = tokens_bytes; i < columns_bytes; i++)
        state[i - tokens_bytes] = state[i];
}

