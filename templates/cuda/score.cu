{{! score.cu - what becomes of a score before the softmax; only where something does. }}
{{#scored}}
{{#alibi}}
/* {{layer_list}}, of each head: a key weighs that much less for every position that it lies back (Press
 * 2021). */
DEVICE_TABLE float attention{{id}}_slope[{{heads}}] = {
    {{slopes}}
};

{{/alibi}}
/* {{layer_list}}: a score of a query's head and a key that lies so far back. */
static __device__ __forceinline__ float attention{{id}}_score(float score, int head, long long back) {
{{#softcapped}}
    score = softcap(score, {{softcap}});
{{/softcapped}}
{{#alibi}}
    score -= attention{{id}}_slope[head] * (float)back;
{{/alibi}}
{{^alibi}}
    (void)head;
    (void)back;
{{/alibi}}
    return score;
}

{{/scored}}
