{{! act.cu - activations, and caps. }}
{{#acts_silu}}
/* x * sigmoid(x). */
static __device__ __forceinline__ float silu(float x) { return x / (1.0f + expf(-x)); }

{{/acts_silu}}
{{#acts_gelu}}
/* Gaussian error linear unit, by erf. Hendrycks and Gimpel 2016. */
static __device__ __forceinline__ float gelu(float x) {
    return x * 0.5f * (1.0f + erff(x * 0.707106781f));
}

{{/acts_gelu}}
{{#acts_gelu_tanh}}
/* Its approximation by tanh, x * sigmoid(2 sqrt(2 / pi) (x + 0.044715 x^3)). */
static __device__ __forceinline__ float gelu_tanh(float x) {
    const float u = x * (1.59576912f + 0.0713548163f * x * x);
    return x / (1.0f + expf(-u));
}

{{/acts_gelu_tanh}}
{{#acts_relu}}
static __device__ __forceinline__ float relu(float x) { return fmaxf(x, 0.0f); }

{{/acts_relu}}
{{#acts_relu2}}
/* The square of relu. */
static __device__ __forceinline__ float relu2(float x) { return fmaxf(x, 0.0f) * fmaxf(x, 0.0f); }

{{/acts_relu2}}
{{#limits}}
/* (up + 1) * gate * sigmoid(alpha gate), gate cut above, up on both sides: GptOssExperts. */
static __device__ __forceinline__ float limited_gate(float gate, float up, float alpha, float limit) {
    gate = fminf(gate, limit);
    up = fmaxf(fminf(up, limit), -limit);
    return (up + 1.0f) * gate / (1.0f + expf(-alpha * gate));
}

{{/limits}}
{{#caps}}
static __device__ __forceinline__ float softcap(float x, float cap) { return cap * tanhf(x / cap); }

{{/caps}}
{{#uses_softplus}}
/* log(1 + exp(x)), which is x from where a float sees no difference: torch.nn.Softplus. */
static __device__ __forceinline__ float softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

{{/uses_softplus}}
