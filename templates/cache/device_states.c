{{! device_states.c - a convolution's columns in a device's memory. }}
{{#cuda}}
{{#has_states}}
/* As shift, of all channels: fresh and shown are bytes of a channel, columns stay in place. */
static void shift_on_device(const {{name}}_cache *cache, int i, int row, const unsigned char *inputs,
                            size_t fresh, unsigned char *visible, size_t shown) {
    sc_cuda *cuda = cache->cuda;
    unsigned char *state = state_row(cache, i, row);
    const size_t channels = (size_t){{name}}_state[i].channels;
    const size_t columns = (size_t){{name}}_state[i].columns * {{name}}_state[i].size;
    const size_t old = visible && shown > fresh ? shown - fresh : 0; /* that are shown */
    if (old)
        move_runs(cache, visible, shown, state + (columns - old), columns, old, channels);
    if (visible)
        move_runs(cache, visible + old, shown, inputs + (fresh - (shown - old)), fresh, shown - old,
                channels);
    if (fresh < columns && sc_cuda_resume(cuda)) {
        const uint64_t words[] = { (uint64_t)(uintptr_t)state, channels, columns, fresh };
        sc_cuda_launch(cuda, cuda->compute, cache->shift, (unsigned)((channels + 255) / 256), 1, 256,
                       words, 4);
        sc_cuda_leave(cuda);
    }
    const size_t kept = fresh < columns ? fresh : columns;
    move_runs(cache, state + (columns - kept), columns, inputs + (fresh - kept), fresh, kept, channels);
}

{{/has_states}}
{{/cuda}}
